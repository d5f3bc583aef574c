"""The views service: the market as a board shows it, rebuilt from the log at every start."""
