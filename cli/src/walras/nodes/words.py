"""Counts of what is on nodes, in words."""


def leases_words(count: int) -> str:
    """Return how many leases."""
    return "1 lease" if count == 1 else f"{count} leases"
