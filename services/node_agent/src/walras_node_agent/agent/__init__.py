"""The agent of one node: it runs, meters and drains real processes."""
