"""Nodes as they stand: their devices, who holds them, how their emptying goes."""
