"""Records that could not be decoded."""

from typing import Annotated, ClassVar

from pydantic import StringConstraints

from walras_contracts.event import Event
from walras_contracts.identifiers import Text
from walras_contracts.quantities import Number


class DeadLettered(Event):
    """A record that a service could not read, with its coordinates."""

    TYPE: ClassVar[str] = "walras.dead_lettered.v1"
    TOPIC: ClassVar[str] = "dead_letter"

    service: Text
    topic: Text
    partition: Number
    offset: Number
    code: Text
    reason: Text
    value_base64: Annotated[str, StringConstraints(strict=True, max_length=90_000)]
    """The first 64 KB of the value."""

    def record_key(self) -> str:
        """Key: the coordinates."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def partition_key(self) -> str:
        """By coordinates."""
        return self.record_key()
