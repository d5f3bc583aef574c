"""Jobs from files: read, checked, given to the market."""
