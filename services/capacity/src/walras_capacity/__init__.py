"""Capacity: what there is to sell, whose it is, and which nodes carry it."""
