"""What touches the world: clock and tasks, HTTP, SMTP, files, metrics."""
