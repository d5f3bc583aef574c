"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodePublished
from walras_contracts.demand import JobQueued
from walras_contracts.drains import DrainabilityScored, DrainRequested
from walras_contracts.market import QuotaGranted
from walras_contracts.money import BudgetPublished
from walras_contracts.placing import PlacementMeasured
from walras_contracts.work import DrainStatusChanged, JobState, LeaseStatusChanged
from walras_placement.answers import note_drain_status, note_request
from walras_placement.core import carry_out, reconcile
from walras_placement.decisions import Plan
from walras_placement.figures import measure
from walras_placement.moves import review_reservations
from walras_placement.parts import note_lease_status, settle_nodes
from walras_placement.plan import plan
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState
from walras_placement.turns import note_turns
from walras_placement.writer import Writer
from walras_runtime.records import Record, Step, StepResult, emit

Planner = Callable[[PlacementState, Moment, Rules, Sequence[str] | None], Plan]
Fold = Callable[[PlacementState, Record], None]
Note = Callable[[PlacementState, Record, Writer], None]


def _accounts(state: PlacementState, record: Record) -> None:
    if isinstance(record.event, AccountsChanged):
        state.policies.put(record.event)


def _node(state: PlacementState, record: Record) -> None:
    event = record.event
    assert event is None or isinstance(event, NodePublished)
    state.devices.put(record.key, event)


def _quota(state: PlacementState, record: Record) -> None:
    if isinstance(record.event, QuotaGranted):
        state.quotas[record.key] = {quota.market: quota for quota in record.event.markets}
        state.team(record.key)
    else:
        state.quotas.pop(record.key, None)
    state.dirty[record.key] = None


def _queued(state: PlacementState, record: Record) -> None:
    if isinstance(record.event, JobQueued):
        state.queue[record.key] = record.event
    else:
        state.queue.pop(record.key, None)
    state.touched[record.key] = None


def _budget(state: PlacementState, record: Record) -> None:
    event = record.event
    assert event is None or isinstance(event, BudgetPublished)
    state.exhausted.put(record.key, event)
    state.dirty[record.key] = None


def _score(state: PlacementState, record: Record) -> None:
    if isinstance(record.event, DrainabilityScored):
        state.scores_ppm[record.key] = record.event.score_ppm
    else:
        state.scores_ppm.pop(record.key, None)


def _lease_status(state: PlacementState, record: Record, writer: Writer) -> None:
    # The agent's tombstone says that it forgot a freed part, as placement has.
    if isinstance(record.event, LeaseStatusChanged):
        note_lease_status(state, writer, record.event)


def _drain_status(state: PlacementState, record: Record, writer: Writer) -> None:
    if isinstance(record.event, DrainStatusChanged):
        note_drain_status(state, writer, record.event)


def _drain_request(state: PlacementState, record: Record, writer: Writer) -> None:
    if isinstance(record.event, DrainRequested):
        note_request(state, writer, record.event)


TABLES: Final[Mapping[str, Fold]] = {
    AccountsChanged.TYPE: _accounts,
    NodePublished.TYPE: _node,
    QuotaGranted.TYPE: _quota,
    JobQueued.TYPE: _queued,
    BudgetPublished.TYPE: _budget,
    DrainabilityScored.TYPE: _score,
}
"""What is folded into tables, as it comes."""
HANDLERS: Final[Mapping[str, Note]] = {
    LeaseStatusChanged.TYPE: _lease_status,
    DrainStatusChanged.TYPE: _drain_status,
    DrainRequested.TYPE: _drain_request,
}
"""What is noted in the step that it belongs to, in this order of topics."""
NOTED: Final = (LeaseStatusChanged.TOPIC, DrainStatusChanged.TOPIC, DrainRequested.TOPIC)


class PlacementStage:
    """Placement as the loop runs it.

    Parameters
    ----------
    rules
        Durations.
    planner
        Decides a step; tests and benches look over its shoulder.
    """

    def __init__(self, rules: Rules, planner: Planner = plan) -> None:
        self.state = PlacementState()
        self.measured: list[PlacementMeasured] = []
        """The figures of the last cycle."""
        self._rules = rules
        self._planner = planner
        self._is_restored = False

    def fold(self, record: Record) -> None:
        """Take a record of a table: accounts, nodes, quotas, queue, budgets, scores."""
        TABLES[record.type](self.state, record)

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take what agents and drains say, follow nodes and queue, then decide who runs where."""
        state = self.state
        moment = Moment(step.barrier.number, step.barrier.market_time_ms)
        writer = Writer(moment, self._rules)
        if not self._is_restored:
            state.settle_restored()
            self._is_restored = True
        told = state.exhausted.begin(moment.now_ms)
        if state.policies.begin(moment.now_ms):
            state.follow_policies()
        for topic in NOTED:
            for record in step.records[topic]:
                HANDLERS[record.type](state, record, writer)
        settle_nodes(state, writer)
        for key in sorted(state.touched):
            reconcile(state, writer, key)
        state.touched.clear()
        _note_missed(state, writer)
        _mark_withdrawn(state)
        review_reservations(state, writer)
        scope = state.take_scope(moment.step, moment.now_ms)
        carry_out(state, writer, self._planner(state, moment, self._rules, scope))
        if moment.step % self._rules.cycle_every == 0:
            self.measured = measure(state, moment, self._rules)
            writer.outputs.extend(emit(each) for each in self.measured)
            note_turns(state, writer, self.measured)
            state.tally.clear()
            state.takeovers.drop_old(moment.step, self._rules.steps(self._rules.frozen_cycles))
        state.devices.check_touched()
        result = writer.result(state)
        return StepResult(result.outputs, [*told, *result.state])


def _note_missed(state: PlacementState, writer: Writer) -> None:
    """Count the jobs that are not finished by their deadline."""
    for job in state.take_missed(writer.moment.now_ms):
        job.missed = True
        market = job.lease.market if job.lease is not None else job.entry().types[0]
        state.tally.of(market).deadline_misses += 1
        writer.changed[job.key] = None


def _mark_withdrawn(state: PlacementState) -> None:
    """Look at the running jobs that must not use their devices any more."""
    for lease in state.devices.withdrawn():
        job = state.by_lease.get(lease)
        if job is not None and job.state is JobState.RUNNING:
            state.team(job.team).marked[job.key] = job
            state.dirty[job.team] = None
