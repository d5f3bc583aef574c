"""Intake's own decisions behind a log in memory: what a command writes is judged as deployed."""

from dataclasses import dataclass, field

from walras.jobs_log.items import Item
from walras.jobs_log.testing import MemoryLog
from walras_contracts.accounts import AccountsChanged
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import BY_TYPE
from walras_contracts.topics import load_topics
from walras_contracts.work import JobStatusChanged
from walras_intake.stage import IntakeStage
from walras_runtime.records import Output, Record, Step

PARTITIONS = load_topics()["demand"].partitions
STEP_MS = 5000


@dataclass(slots=True)
class MemoryIntake:
    """Judges what lies on ``demand`` in the partition of one team; each idle moment is a step."""

    log: MemoryLog
    team: str
    is_running: bool = True
    _waiting: list[Record] = field(default_factory=list)
    _ended: list[Record] = field(default_factory=list)
    _stage: IntakeStage = field(init=False)

    def __post_init__(self) -> None:
        self._stage = IntakeStage(partition_of(self.team, PARTITIONS), PARTITIONS)
        self.log.on_write = self.take
        self.log.on_idle = self.step

    def know(self, *changes: AccountsChanged) -> None:
        """Take documents of the accounts."""
        for change in changes:
            self._stage.fold(_record(Item("accounts", 0, 0, "", change)))

    def end(self, status: JobStatusChanged, *, shown: bool = True) -> None:
        """Take that placement says that a job is over; ``shown``: a command can read it, too."""
        if shown:
            self.log.put(status)
        self._ended.append(_record(Item("job.status", 0, 0, status.record_key(), status)))

    def take(self, _: MemoryLog, item: Item) -> None:
        """Take what was written."""
        if item.topic == "demand":
            self._waiting.append(_record(item))

    def step(self, _: MemoryLog) -> bool:
        """End the interval and judge it."""
        if not self.is_running:
            return True
        now_ms = 0 if self.log.barrier is None else self.log.barrier.market_time_ms
        self.log.pass_barrier(now_ms + STEP_MS, "demand")
        assert self.log.barrier is not None
        records = {
            "job.status": self._ended,
            "accounts.requests": list[Record](),
            "demand": self._waiting,
        }
        result = self._stage.step(Step(self.log.barrier, records))
        self._waiting, self._ended = [], []
        for output in result.outputs:
            self._put(output)
        self.log.pass_same_barrier("queue")
        return True

    def _put(self, output: Output) -> None:
        model = BY_TYPE[output.type]
        if output.payload is None:
            self.log.end(model, output.key, output.partition_key)
        else:
            event = model.model_validate_json(output.payload)
            self.log.put_at(event, output.partition)


def _record(item: Item) -> Record:
    event = item.event
    assert event is not None
    return Record(
        item.topic,
        item.partition,
        item.offset,
        item.key,
        event.TYPE,
        event.payload(),
        event,
        item.event_id,
        item.source,
    )
