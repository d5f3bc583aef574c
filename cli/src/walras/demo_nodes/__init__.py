"""The demo of nodes: agents with real processes, a price spike, a drain, and work that goes on."""
