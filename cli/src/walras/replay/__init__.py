"""Stored cycles cleared again: the same bit for bit, or under another policy."""
