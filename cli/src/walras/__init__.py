"""The walras command."""
