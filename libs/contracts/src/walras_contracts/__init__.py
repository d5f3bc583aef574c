"""Walras events, quantities, identifiers and the topic registry."""
