"""Reading quotas when all is well, and when it is not: the quota ladder (design §7)."""
