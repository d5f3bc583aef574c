"""The launcher: runs a program that handles no signals, and speaks to the node agent for it."""
