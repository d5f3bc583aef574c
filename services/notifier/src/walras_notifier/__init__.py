"""The notifier: brings notices to whoever asked for them, by webhook and by e-mail."""
