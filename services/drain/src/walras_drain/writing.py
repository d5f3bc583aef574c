"""What a step writes: of each record key the last word, in a total order."""

from dataclasses import dataclass, field

from walras_contracts.event import Event
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output, StateChange, StepResult, emit, tombstone


@dataclass(slots=True)
class Writer:
    """Collects the outputs and state changes of the step at ``now_ms``."""

    now_ms: int
    _outputs: dict[tuple[str, str], Output] = field(default_factory=dict)
    _changes: dict[str, bytes | None] = field(default_factory=dict)

    def tell(self, event: Event) -> None:
        """Write an event; the last one of a key counts."""
        self._outputs[event.TOPIC, event.record_key()] = emit(event)

    def tell_once(self, event: Event) -> None:
        """Write an event that nothing may overwrite.

        Raises
        ------
        InvariantBrokenError
            There is one of the same key already.
        """
        if (event.TOPIC, event.record_key()) in self._outputs:
            raise InvariantBrokenError(f"{event.TOPIC}: {event.record_key()} would be told twice")
        self.tell(event)

    def end(self, event_class: type[Event], key: str, partition_key: str) -> None:
        """End the entity of a key."""
        self._outputs[event_class.TOPIC, key] = tombstone(event_class, key, partition_key)

    def keep(self, key: str, value: bytes | None) -> None:
        """Change a record of the own state; None: it is gone."""
        self._changes[key] = value

    def result(self) -> StepResult:
        """Return all of it, by topic, then by key."""
        outputs = [self._outputs[place] for place in sorted(self._outputs)]
        changes = [StateChange(key, self._changes[key]) for key in sorted(self._changes)]
        return StepResult(outputs, changes)
