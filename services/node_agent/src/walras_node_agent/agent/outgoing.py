"""Events on their way to the log: with ids that are the same whenever they are made again."""

from dataclasses import dataclass
from typing import Any

from walras_contracts.event import Event
from walras_runtime.records import Output


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to write; ``payload`` None: the end of its key.

    ``event_id`` is a function of what the record says, so that one that is written again after a
    crash can be told from a new one.
    """

    event_id: str
    topic: str
    key: str
    partition_key: str
    type: str
    payload: str | None

    def dump(self) -> list[Any]:
        """Return it as JSON."""
        names = (self.event_id, self.topic, self.key, self.partition_key, self.type)
        return [*names, self.payload]

    @staticmethod
    def parse(values: list[Any]) -> "Outgoing":
        """Return what was dumped."""
        return Outgoing(*values)


def outgoing(event: Event, event_id: str) -> Outgoing:
    """Return the record that carries an event."""
    return Outgoing(
        event_id,
        event.TOPIC,
        event.record_key(),
        event.partition_key(),
        event.TYPE,
        event.payload().decode(),
    )


def of_output(output: Output, event_id: str) -> Outgoing:
    """Return the record that a stage would write."""
    payload = None if output.payload is None else output.payload.decode()
    return Outgoing(event_id, output.topic, output.key, output.partition_key, output.type, payload)
