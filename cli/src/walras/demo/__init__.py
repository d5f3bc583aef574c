"""The demo: a trace replayed through the real services on a real Kafka and Redis."""
