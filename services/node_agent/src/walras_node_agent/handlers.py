"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.drains import DrainCommanded
from walras_contracts.work import LeaseGranted
from walras_node_agent.core import end_part, end_session, take_command, take_part
from walras_node_agent.drains import Behaviour
from walras_node_agent.fleet import simulate
from walras_node_agent.state import CLOCK_KEY, FleetState
from walras_runtime.records import Output, Record, StateChange, Step, StepResult

Handler = Callable[[FleetState, Record, int], list[Output]]


def _lease(state: FleetState, record: Record, _: int) -> list[Output]:
    if isinstance(record.event, LeaseGranted):
        take_part(state, record.event)
        return []
    lease_id, _slash, node = record.key.partition("/")
    return end_part(state, lease_id, node)


def _command(state: FleetState, record: Record, now_ms: int) -> list[Output]:
    if isinstance(record.event, DrainCommanded):
        return take_command(state, record.event, now_ms)
    end_session(state, record.key.partition("/")[0])
    return []


HANDLERS: Final[Mapping[str, Handler]] = {
    LeaseGranted.TYPE: _lease,
    DrainCommanded.TYPE: _command,
}


class FleetStage:
    """The simulated fleet as the loop runs it."""

    def __init__(self, interval_ms: int, behaviour: Behaviour) -> None:
        self.state = FleetState()
        self._interval_ms = interval_ms
        self._behaviour = behaviour

    def fold(self, record: Record) -> None:
        """Take nothing: the fleet has no table inputs."""

    def load(self, key: str, value: bytes) -> None:
        """Take back a lease or the clock."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take grants and commands, then simulate the window of this step."""
        state = self.state
        outputs: list[Output] = []
        now_ms = step.barrier.market_time_ms
        for records in step.records.values():
            for record in records:
                outputs += HANDLERS[record.type](state, record, now_ms)
        outputs += simulate(state, now_ms, self._interval_ms, self._behaviour)
        changes = [StateChange(CLOCK_KEY, state.clock.dump())]
        for lease_id in sorted(state.changed):
            changes.append(StateChange(lease_id, state.dump(lease_id)))
        state.changed.clear()
        return StepResult(outputs, changes)
