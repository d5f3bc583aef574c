"""What moves through a step: records, barriers, outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from walras_contracts.event import Event

BARRIER_TYPE = "walras.barrier.v1"
BARRIER_KEY_PREFIX = "~barrier/"
BARRIER_KEYS = 4096
"""Number of different barrier keys on a compacted topic: so many of the last barriers are kept."""
POSITION_KEY = "~position"


@dataclass(frozen=True, slots=True)
class Barrier:
    """Barrier ``number``, written into every partition: the end of an interval of the log."""

    number: int
    market_time_ms: int

    def key(self, *, cyclic: bool = False) -> str:
        """Return the record key of the barrier.

        Parameters
        ----------
        cyclic
            The key of a compacted topic, one of :data:`BARRIER_KEYS`: a key of its own for each
            barrier would never let compaction remove one (decision 9).
        """
        return f"{BARRIER_KEY_PREFIX}{self.number % BARRIER_KEYS if cyclic else self.number}"


# A step may have tens of thousands of the next three, and a frozen one takes several times as long
# to make. Nobody changes one.


@dataclass(slots=True)
class Record:
    """One record as a stage sees it.

    ``event`` is the decoded payload; None for a tombstone and for inputs that the stage reads raw.
    """

    topic: str
    partition: int
    offset: int
    key: str
    type: str
    value: bytes | None
    event: Event | None = None
    event_id: str | None = None
    source: str | None = None


@dataclass(slots=True)
class Output:
    """A record to write in the transaction of the step.

    ``partition`` None: the partition of ``partition_key``. ``payload`` None: a tombstone.
    """

    topic: str
    key: str
    partition_key: str
    type: str
    payload: bytes | None
    partition: int | None = None


def emit(event: Event, *, partition: int | None = None) -> Output:
    """Return the output that carries an event to its topic."""
    return Output(
        event.TOPIC,
        event.record_key(),
        event.partition_key(),
        event.TYPE,
        event.payload(),
        partition,
    )


def tombstone(event_class: type[Event], key: str, partition_key: str) -> Output:
    """Return the output that ends the entity ``key`` on the event's topic."""
    return Output(event_class.TOPIC, key, partition_key, event_class.TYPE, None)


@dataclass(slots=True)
class StateChange:
    """A change of the stage's own state: the new value of a key, or None when it is gone."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Step:
    """All that step n may look at.

    ``records`` maps each input topic, in the order of the stage's inputs, to its records of this
    step by partition and offset. ``late`` names the inputs that were not waited for as
    ``topic/partition@barrier used``. ``failures`` counts earlier crashes on this barrier by
    subject. ``newest_ready`` is the last step that could be decided already, this one where there
    is no later one; partitions that are late are not waited for, and do not count. -1: not told.
    """

    barrier: Barrier
    records: Mapping[str, Sequence[Record]]
    late: tuple[str, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    newest_ready: int = -1


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step decided: outputs and state changes, committed together or not at all."""

    outputs: Sequence[Output] = ()
    state: Sequence[StateChange] = ()
