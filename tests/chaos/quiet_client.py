"""The Kafka client without a word, for runs that take the broker away."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_client() -> Iterator[None]:
    """Let it say nothing: while the broker is away it would, hundreds of times a second."""
    client = logging.getLogger("aiokafka")
    level = client.level
    client.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        client.setLevel(level)
