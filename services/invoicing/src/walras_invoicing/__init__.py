"""Invoicing: drafts, issue, void and corrections of what pools and teams owe."""
