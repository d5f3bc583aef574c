"""Rating of usage files against price files, by the code that the billing service runs."""
