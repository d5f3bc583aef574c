"""Intake as a stage of the step loop, one per partition."""

from typing import Final

from walras_contracts.accounts import AccountsChanged, AccountsRequested
from walras_contracts.demand import JobCancelled, JobLimitChanged, JobSubmitted
from walras_contracts.edge import decode_edge
from walras_contracts.event import Event
from walras_intake.core import misplaced
from walras_intake.handlers import HANDLERS, Work, rehome
from walras_intake.state import IntakeState
from walras_runtime.records import Record, Step, StepResult

ACCEPTED: Final[dict[str, frozenset[str]]] = {
    "demand": frozenset({JobSubmitted.TYPE, JobLimitChanged.TYPE, JobCancelled.TYPE}),
    "accounts.requests": frozenset({AccountsRequested.TYPE}),
}
KEY_PATHS: Final[dict[str, str]] = {"demand": "$.team", "accounts.requests": "$.document"}


class IntakeStage:
    """Judges the demand of one partition of teams, and the account requests of all.

    Parameters
    ----------
    partition
        The stage's own partition.
    partitions
        How many partitions ``demand`` and ``accounts.requests`` have.
    """

    def __init__(self, partition: int, partitions: int) -> None:
        self.state = IntakeState()
        self.repeats = 0
        """How many records asked for what was done before, since the start of the process."""
        self._partition = partition
        self._partitions = partitions

    def fold(self, record: Record) -> None:
        """Take a document of the accounts."""
        if isinstance(record.event, AccountsChanged):
            self.state.accounts.put(record.event)

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the own state."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Judge one interval: ends of jobs, then account requests, then demand."""
        market_time_ms = step.barrier.market_time_ms
        work = Work(self.state, self._partition, market_time_ms)
        self.state.forget_ended(market_time_ms)
        for record in step.records["job.status"]:
            if record.event is not None:
                HANDLERS[record.event.TYPE](work, record, record.event)
        for record in step.records["accounts.requests"]:
            self._judge(work, record)
        if self.state.accounts.advance(market_time_ms):
            rehome(work)
        for record in step.records["demand"]:
            self._judge(work, record)
        self.repeats += work.repeats
        return StepResult(work.outputs, self.state.take_changes())

    def _judge(self, work: Work, record: Record) -> None:
        """Read a record from outside and hand it on, or refuse it."""
        outcome = decode_edge(
            record.type, record.event_id, record.source, record.value, ACCEPTED[record.topic]
        )
        if isinstance(outcome, Event):
            fault = misplaced(
                KEY_PATHS[record.topic],
                outcome.partition_key(),
                record.partition,
                self._partitions,
            )
            if fault is None:
                HANDLERS[outcome.TYPE](work, record, outcome)
                return
            outcome = fault
        if record.partition == self._partition:
            work.refuse(record, outcome)
