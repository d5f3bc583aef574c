"""billing service."""
