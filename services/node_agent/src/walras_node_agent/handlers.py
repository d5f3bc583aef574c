"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.drains import VacateRequested
from walras_contracts.work import LeaseGranted, LeaseStatusChanged
from walras_node_agent.core import end_part, take_part, take_vacate
from walras_node_agent.drains import DrainRules
from walras_node_agent.fleet import simulate
from walras_node_agent.state import CLOCK_KEY, FleetState
from walras_runtime.records import Output, Record, StateChange, Step, StepResult, tombstone

Handler = Callable[[FleetState, Record, list[Output]], None]


def _lease(state: FleetState, record: Record, outputs: list[Output]) -> None:
    if isinstance(record.event, LeaseGranted):
        take_part(state, record.event)
        return
    lease_id, _, node = record.key.partition("/")
    if end_part(state, lease_id, node):
        outputs.append(tombstone(LeaseStatusChanged, record.key, node))


def _vacate(state: FleetState, record: Record, _: list[Output]) -> None:
    if isinstance(record.event, VacateRequested):
        take_vacate(state, record.event)


HANDLERS: Final[Mapping[str, Handler]] = {
    LeaseGranted.TYPE: _lease,
    VacateRequested.TYPE: _vacate,
}


class FleetStage:
    """The simulated fleet as the loop runs it."""

    def __init__(self, interval_ms: int, rules: DrainRules) -> None:
        self.state = FleetState()
        self._interval_ms = interval_ms
        self._rules = rules

    def fold(self, record: Record) -> None:
        """Take nothing: the fleet has no table inputs."""

    def load(self, key: str, value: bytes) -> None:
        """Take back a lease or the clock."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take grants and vacates, then simulate the window of this step."""
        state = self.state
        outputs: list[Output] = []
        for records in step.records.values():
            for record in records:
                HANDLERS[record.type](state, record, outputs)
        now_ms = step.barrier.market_time_ms
        outputs += simulate(state, now_ms, self._interval_ms, self._rules)
        changes = [StateChange(CLOCK_KEY, state.clock.dump())]
        for lease_id in sorted(state.changed):
            changes.append(StateChange(lease_id, state.dump(lease_id)))
        state.changed.clear()
        return StepResult(outputs, changes)
