"""The log in memory: the same stages on the same loop rules, without a broker."""
