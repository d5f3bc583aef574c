"""The base of all events."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """One fact on a topic: an immutable JSON payload with a versioned type name.

    ``TYPE`` is the CloudEvents type and ``TOPIC`` the short topic name (``schemas/topics.toml``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    TYPE: ClassVar[str]
    TOPIC: ClassVar[str]

    def record_key(self) -> str:
        """Key of the record: what compaction keeps the latest of."""
        raise NotImplementedError

    def partition_key(self) -> str:
        """Name the thing whose records share a partition, and so an order."""
        raise NotImplementedError

    def payload(self) -> bytes:
        """JSON payload; equal events give equal bytes."""
        return self.model_dump_json().encode()


class Part(BaseModel):
    """A value inside an event."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
