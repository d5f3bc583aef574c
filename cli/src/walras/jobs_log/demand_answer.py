"""What intake makes of a record on ``demand``: taken, refused, or nothing.

The step of the record ends with the first barrier behind it. Once ``queue`` shows that barrier all
is decided; once it shows a later one, all that was decided can be read.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from walras.jobs_log.items import Item, Log, Place, Watch
from walras_contracts.demand import DemandRejected, JobQueued
from walras_runtime.clock import monotonic_ms

TOPICS: Final = ("demand", "queue", "demand.rejected")
Taken = Callable[[JobQueued | None], bool]
"""Whether the queue shows what was asked for; None: the job is not in it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``known``: whether there is an answer at all; ``refusal``: None where it was not refused.

    Known, not refused and not ``taken``: intake took it for something that it was told before.
    """

    known: bool
    taken: bool = False
    queued: JobQueued | None = None
    refusal: DemandRejected | None = None


class AnswerWatch:
    """Takes what follows a record, until it is known what became of it."""

    def __init__(self, place: Place, key: str, taken: Taken) -> None:
        self._place = place
        self._key = key
        self._taken = taken
        self._barrier: int | None = None
        """The one that ends the record's step."""
        self._decided = -1
        self.answer = Answer(known=False)

    @property
    def is_over(self) -> bool:
        """Whether all of the record's step can be read."""
        return self._barrier is not None and self._decided > self._barrier

    def take(self, item: Item) -> None:
        """Take the next record of any of the topics."""
        if item.barrier is not None:
            self._pass_barrier(item.topic, item.barrier.number)
        elif item.topic == JobQueued.TOPIC and item.key == self._key:
            queued = item.event if isinstance(item.event, JobQueued) else None
            if self._taken(queued):
                self.answer = Answer(known=True, taken=True, queued=queued)
        elif isinstance(item.event, DemandRejected):
            self.take_refusal(item.event)

    def take_refusal(self, refusal: DemandRejected) -> None:
        """Take what was refused, this record or another one."""
        if (refusal.topic, refusal.partition, refusal.offset) == self._place:
            self.answer = Answer(known=True, refusal=refusal)

    def _pass_barrier(self, topic: str, number: int) -> None:
        if topic == self._place.topic:
            if self._barrier is None:
                self._barrier = number
        elif topic == JobQueued.TOPIC:
            self._decided = max(self._decided, number)


def await_answer(log: Log, place: Place, key: str, taken: Taken, *, timeout_ms: int) -> Answer:
    """Wait for what becomes of a record that was written to ``demand`` about the job of a key.

    ``queue`` and ``demand.rejected`` must have been read before it was written.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    watch = AnswerWatch(place, key, taken)
    start_ms = monotonic_ms()
    team, _, _ = key.partition("/")
    watches = (
        Watch("demand", (), team),
        Watch(JobQueued.TOPIC, (JobQueued,), team),
        Watch(DemandRejected.TOPIC, (DemandRejected,), team),
    )
    with closing(log.follow(watches)) as items:
        for item in items:
            if item is not None:
                watch.take(item)
            if watch.answer.known:
                return watch.answer
            if watch.is_over:
                break
            if monotonic_ms() - start_ms > timeout_ms:
                return watch.answer
    for item in log.read(DemandRejected.TOPIC, DemandRejected, partition_key=team):
        if isinstance(item.event, DemandRejected):
            watch.take_refusal(item.event)
    return watch.answer if watch.answer.known else Answer(known=True)
