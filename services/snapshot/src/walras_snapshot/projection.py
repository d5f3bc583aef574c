"""From the log to snapshots: which records lie before a barrier, and what it then shows.

Pure: it is pushed what was read and asked for what became complete.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from walras_contracts.market import QuotaGranted
from walras_runtime.align import Aligner
from walras_runtime.decoding import decode
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.kafka.wire import BarrierMark
from walras_runtime.records import Record
from walras_runtime.redis.versioned import Stamp, Versioned
from walras_runtime.stage import Input
from walras_snapshot.core import body, cycle_of
from walras_snapshot.handlers import HANDLERS
from walras_snapshot.state import SnapshotState

QUOTAS: Final = "quotas"
INPUTS: Final = (
    Input("accounts", table=True, may_be_late=False),
    Input("supply", table=True, may_be_late=False),
    Input(QUOTAS, table=True, may_be_late=False),
)
BODY_FIELD: Final = "body"
PUBLISHED_FIELD: Final = "published_at_ms"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The market as all quota partitions showed it at one barrier.

    ``epoch`` and ``published_at_ms`` come from the barrier's records: the highest epoch that wrote
    it, and the broker timestamp of the one in quotas partition 0.
    """

    epoch: int
    cycle: int
    barrier: int
    published_at_ms: int
    body: bytes

    def versioned(self) -> Versioned:
        """Return it as the stamped value that the store takes."""
        return Versioned(
            Stamp(self.epoch, self.cycle, self.barrier),
            {BODY_FIELD: self.body, PUBLISHED_FIELD: b"%d" % self.published_at_ms},
        )


@dataclass(slots=True)
class _Marks:
    epoch: int
    published_at_ms: int | None = None


class Projection:
    """Folds quotas, supply and accounts in the order of the barriers.

    Parameters
    ----------
    partitions
        Number of partitions per input topic.
    barriers_per_cycle
        As in clearing; checked against every quota read.
    """

    def __init__(self, partitions: Mapping[str, int], barriers_per_cycle: int) -> None:
        self._inputs = {source.topic: source for source in INPUTS}
        self._aligner = Aligner(INPUTS, {t: range(n) for t, n in partitions.items()}, {}, {})
        self._per_cycle = barriers_per_cycle
        self._marks: dict[int, _Marks] = {}
        self._next = 0
        self._begun = False
        self.state = SnapshotState()
        self.undecodable: Counter[str] = Counter()

    @property
    def barrier(self) -> int:
        """Number of the last barrier taken, -1 before the first."""
        return self._next - 1

    def push(self, topic: str, partition: int, item: Record | BarrierMark) -> None:
        """Take the next record or barrier of a partition.

        Raises
        ------
        InvariantBrokenError
            A barrier is missing.
        """
        if isinstance(item, BarrierMark):
            self._aligner.push_barrier(topic, partition, item.offset, item.barrier)
            if topic == QUOTAS and item.barrier.number >= self._next:
                self._mark(partition, item)
            return
        self._aligner.push_record(item)

    def advance(self) -> Snapshot | None:
        """Take all steps that are complete; return the snapshot at the last of them.

        Raises
        ------
        PartitionStoppedError
            A record of a version that this build does not know.
        InvariantBrokenError
            A quota names another cycle than its barrier does: the settings of clearing and
            snapshot differ.
        """
        latest: Snapshot | None = None
        # Compaction has removed old barriers: the log that is read may begin with a later one.
        self._next = max(self._next, self._aligner.starts_at())
        while self._aligner.ready(self._next):
            aligned = self._aligner.take(self._next)
            for records in aligned.records.values():
                for record in records:
                    self._fold(record)
            marks = self._marks.pop(self._next)
            number = aligned.barrier.number
            self._next += 1
            self._begun = True
            self.state.forget_replaced(aligned.barrier.market_time_ms)
            if not self._aligner.ready(self._next):
                assert marks.published_at_ms is not None
                latest = Snapshot(
                    marks.epoch,
                    cycle_of(number, self._per_cycle),
                    number,
                    marks.published_at_ms,
                    body(self.state, aligned.barrier, self._per_cycle),
                )
        return latest

    def _mark(self, partition: int, mark: BarrierMark) -> None:
        marks = self._marks.setdefault(mark.barrier.number, _Marks(mark.epoch))
        marks.epoch = max(marks.epoch, mark.epoch)
        if partition == 0 and marks.published_at_ms is None:
            marks.published_at_ms = mark.timestamp_ms

    def _fold(self, raw: Record) -> None:
        record, letter = decode("snapshot", self._inputs[raw.topic], raw)
        if letter is not None:
            # A projection writes nothing to the log; the deciding readers send the dead letter.
            self.undecodable[raw.topic] += 1
        handler = HANDLERS.get(raw.type)
        if record is None or handler is None:
            return
        event = record.event
        # The first step holds all that earlier ones left, where their barriers are gone.
        if isinstance(event, QuotaGranted) and (
            event.cycle * self._per_cycle > self._next
            or (self._begun and event.cycle * self._per_cycle != self._next)
        ):
            raise InvariantBrokenError(
                f"the quota of {event.team} in step {self._next} is of cycle {event.cycle}: that "
                f"is not one cycle per {self._per_cycle} barriers (WALRAS_CYCLE_EVERY)"
            )
        handler(self.state, record)
