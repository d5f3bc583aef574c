"""The clearing service: from demand and supply to prices and quotas, once per cycle."""
