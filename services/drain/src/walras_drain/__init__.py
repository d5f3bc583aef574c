"""drain service."""
