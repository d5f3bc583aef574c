"""node_agent service."""
