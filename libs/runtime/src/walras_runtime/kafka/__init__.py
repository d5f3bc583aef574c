"""The step loop on Apache Kafka (aiokafka)."""
