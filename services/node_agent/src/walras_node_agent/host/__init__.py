"""What touches the machine: files, processes, devices. All else in this package is pure."""
