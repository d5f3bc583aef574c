"""Ticker: decides when an interval of the log ends, and writes the barrier that ends it."""
