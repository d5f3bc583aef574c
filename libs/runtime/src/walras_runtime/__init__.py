"""Walras runtime."""
