"""Drains that people order: of jobs, and of nodes."""
