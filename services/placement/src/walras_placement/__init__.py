"""placement service."""
