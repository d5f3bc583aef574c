"""The versions that the launcher runs; the compose file and the tests agree with them."""

KAFKA_VERSION = "4.1.2"
"""Apache Kafka, from Maven jars and as the container image's tag."""

SCALA_VERSION = "2.13"
"""Scala line in the name of the broker's artifact."""

MINIMUM_JAVA = 17
"""Kafka 4 needs at least this Java feature release."""

KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
"""Container image of the broker for the Docker rung."""

REDIS_IMAGE = "redis:7.4.5-alpine"
"""Container image of Redis for the Docker rung."""
