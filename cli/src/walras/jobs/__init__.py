"""Jobs as they stand: what they wait for, what they cost, where they run, how they leave."""
