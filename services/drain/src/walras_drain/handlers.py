"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodeHealthReported, NodePublished
from walras_contracts.drains import (
    DrainOrdered,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.work import DrainStatusChanged, LeaseGranted, LeaseStatusChanged
from walras_drain import core, sessions, timers, triggers
from walras_drain.node_watch import follow_emptying, follow_lost_nodes, keep_low_use
from walras_drain.state import DrainServiceState
from walras_drain.writing import Writer
from walras_runtime.records import Record, Step, StepResult


class Work:
    """One step under way; ``complete``: all leases that were granted by now have been read."""

    def __init__(self, state: DrainServiceState, writer: Writer, *, complete: bool) -> None:
        self.state = state
        self.writer = writer
        self.complete = complete


Fold = Callable[[DrainServiceState, Record], None]
Handler = Callable[[Work, Record], None]


def _accounts(state: DrainServiceState, record: Record) -> None:
    if isinstance(record.event, AccountsChanged):
        state.terms.put(record.event)


def _node(state: DrainServiceState, record: Record) -> None:
    assert record.event is None or isinstance(record.event, NodePublished)
    state.nodes.put(record.key, record.event)


def _lease(state: DrainServiceState, record: Record) -> None:
    assert record.event is None or isinstance(record.event, LeaseGranted)
    state.leases.put(record.key, record.event)


def _drain_status(work: Work, record: Record) -> None:
    if isinstance(record.event, DrainStatusChanged):
        core.note_drain_status(work.state, work.writer, record.event)


def _lease_status(work: Work, record: Record) -> None:
    # The agent's tombstone says that it forgot a freed part.
    if isinstance(record.event, LeaseStatusChanged):
        core.note_lease_status(work.state, work.writer, record.event)


def _vacate(work: Work, record: Record) -> None:
    if isinstance(record.event, VacateRequested):
        core.note_vacate(work.state, work.writer, record.event, complete=work.complete)


def _withdrawal(work: Work, record: Record) -> None:
    if isinstance(record.event, VacateWithdrawn):
        core.note_withdrawal(work.state, work.writer, record.event)


def _order(work: Work, record: Record) -> None:
    if isinstance(record.event, DrainOrdered):
        triggers.note_order(work.state, work.writer, record.event)


def _health(work: Work, record: Record) -> None:
    if isinstance(record.event, NodeHealthReported):
        triggers.note_health(work.state, work.writer, record.event)


FOLDS: Final[Mapping[str, Fold]] = {
    AccountsChanged.TYPE: _accounts,
    NodePublished.TYPE: _node,
    LeaseGranted.TYPE: _lease,
}
HANDLERS: Final[Mapping[str, Handler]] = {
    DrainStatusChanged.TYPE: _drain_status,
    LeaseStatusChanged.TYPE: _lease_status,
    VacateRequested.TYPE: _vacate,
    VacateWithdrawn.TYPE: _withdrawal,
    DrainOrdered.TYPE: _order,
    NodeHealthReported.TYPE: _health,
}
AGENTS_FIRST: Final = (DrainStatusChanged.TOPIC, LeaseStatusChanged.TOPIC)
THEN: Final = (VacateRequested.TOPIC, DrainOrdered.TOPIC, NodeHealthReported.TOPIC)
"""What agents say happened before placement decided its step."""


class DrainStage:
    """Drain as the loop runs it.

    Parameters
    ----------
    interval_ms
        The usual market time between barriers.
    """

    def __init__(self, interval_ms: int) -> None:
        self.state = DrainServiceState(interval_ms)

    def fold(self, record: Record) -> None:
        """Take a record of a table: accounts, nodes, leases."""
        FOLDS[record.type](self.state, record)

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take what agents, placement and operators say, then let time pass."""
        state = self.state
        writer = Writer(step.barrier.market_time_ms)
        late = any(name.startswith(f"{LeaseGranted.TOPIC}/") for name in step.late)
        work = Work(state, writer, complete=not late)
        hole_ms = state.clock.begin(writer.now_ms)
        if hole_ms > 0:
            timers.set_later(state, writer, hole_ms)
        state.nodes.recount(state.leases)
        _take(work, step, AGENTS_FIRST)
        _follow_leases(work)
        follow_lost_nodes(state, writer)
        for vacate in [state.unmatched[lease] for lease in sorted(state.unmatched)]:
            core.note_vacate(state, writer, vacate, complete=work.complete)
        _take(work, step, THEN)
        triggers.ask_placement(state, writer)
        timers.begin_what_may(state, writer)
        timers.end_what_is_over(state, writer)
        follow_emptying(state, writer)
        keep_low_use(state, writer)
        timers.tell_progress(state, writer)
        timers.forget(state, writer)
        state.nodes.forget_changes()
        state.leases.forget_changes()
        clock = state.clock.end()
        writer.keep(clock.key, clock.value)
        return writer.result()


def _take(work: Work, step: Step, topics: tuple[str, ...]) -> None:
    for topic in topics:
        for record in step.records[topic]:
            HANDLERS[record.type](work, record)


def _follow_leases(work: Work) -> None:
    """Take that leases and parts of them ended, and that jobs hold leases or none any more."""
    state, writer = work.state, work.writer
    for lease, node in sorted(state.leases.ended_parts):
        for session in state.sessions.all_of_part(lease, node):
            reaction = sessions.part_gone(session, node, writer.now_ms)
            core.carry_out(state, writer, session, reaction)
        core.forget_stuck(state, writer, lease, node)
        state.low_use.busy(lease, node)
    for name in sorted(state.leases.gone):
        triggers.forget_lease(state, writer, name)
        core.note_lease_gone(state, writer, state.leases.gone[name])
    for name in sorted(state.leases.new):
        core.note_lease_new(state, writer, state.leases.leases[name])
