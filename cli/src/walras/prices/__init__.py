"""What was in force when: prices of a market over market time, as they are known now."""
