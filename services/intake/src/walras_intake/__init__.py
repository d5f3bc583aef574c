"""Intake: judges what teams and administrators ask for, and keeps the queue and the accounts."""
