"""Capacity as a stage of the step loop, a single leader."""

import base64
from typing import Final

from walras_capacity.handlers import (
    HANDLERS,
    Work,
    apply_coming,
    hear,
    lose_silent,
    set_health,
)
from walras_capacity.state import CapacityState
from walras_capacity.timeouts import LeaseTimeouts
from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodeHealthReported, NodeObserved
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.edge import decode_edge
from walras_contracts.identifiers import recorded
from walras_contracts.rejections import Rejection
from walras_runtime.decoding import KEPT_BYTES
from walras_runtime.records import Output, Record, Step, StepResult, emit

ACCEPTED: Final = frozenset({NodeObserved.TYPE})


class CapacityStage:
    """Turns observations and health into supply per type and nodes.

    Parameters
    ----------
    interval_ms
        Market time between barriers.
    """

    def __init__(self, interval_ms: int) -> None:
        self.state = CapacityState()
        self._timeouts = LeaseTimeouts()
        self._interval_ms = interval_ms

    def fold(self, record: Record) -> None:
        """Take a document of the accounts, or that a node was heard."""
        if record.topic == NodeHealthReported.TOPIC:
            self.state.heartbeats.fold(record)
        elif isinstance(record.event, AccountsChanged):
            self._timeouts.put(record.event)

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the own state."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Decide one interval: due changes, inventory, health, who has been silent too long."""
        market_time_ms = step.barrier.market_time_ms
        timeout_ms = self._timeouts.in_force_ms(market_time_ms)
        clock = self.state.heartbeats.advance(
            market_time_ms,
            self._interval_ms,
            timeout_ms,
            is_whole=not any(late.startswith(f"{NodeHealthReported.TOPIC}/") for late in step.late),
        )
        work = Work(self.state, market_time_ms, first=step.barrier.number == 0)
        letters: list[Output] = []
        apply_coming(work)
        for record in step.records["inventory"]:
            outcome = decode_edge(
                record.type, record.event_id, record.source, record.value, ACCEPTED
            )
            if isinstance(outcome, Rejection):
                letters.append(emit(dead_letter(record, outcome)))
            else:
                HANDLERS[outcome.TYPE](work, outcome)
        for record in step.records["node.health"]:
            if record.event is None:
                set_health(work, record.key, ())
            else:
                HANDLERS[record.event.TYPE](work, record.event)
                hear(work, record.key, record.offset)
        lose_silent(work, timeout_ms)
        supplies, nodes, changes = self.state.take_published(market_time_ms)
        outputs = [*(emit(supply) for supply in supplies), *(emit(node) for node in nodes)]
        return StepResult([*outputs, *letters], [*clock, *changes])


def dead_letter(record: Record, rejection: Rejection) -> DeadLettered:
    """Return the dead letter of an inventory record that could not be taken."""
    return DeadLettered(
        service="capacity",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        code=rejection.code.value,
        reason=recorded(f"{rejection.path or 'event'}: {rejection.reason}", 500),
        value_base64=base64.b64encode((record.value or b"")[:KEPT_BYTES]).decode(),
    )
