"""One capacity on a log in memory, and how a test speaks to it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from walras_capacity.settings import Settings
from walras_capacity.wiring import build
from walras_contracts.accounts import AccountsChanged, DrainTerms, PlatformDocument
from walras_contracts.capacity import NodeHealthReported, NodeObserved, NodeState
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit, tombstone
from walras_runtime.stage import Stage

START_MS = 1_728_000_000_000
"""A full hour; barrier 0 lies on it."""
INTERVAL_MS = 600_000


class Capacity:
    """The stage; ``make`` replaces it, for canaries.

    ``interval_ms`` is how far barriers are apart, ``expected_ms`` how far it thinks they should be:
    by default every step follows an interruption, and nobody is ever lost.
    """

    def __init__(
        self,
        make: Callable[[int], Stage] | None = None,
        *,
        interval_ms: int = INTERVAL_MS,
        expected_ms: int = 5_000,
    ) -> None:
        self.spec = build(Settings(kafka_bootstrap="none:0", interval_ms=expected_ms))
        if make is not None:
            self.spec = replace(self.spec, build=make)
        self.log = MemoryLog(load_topics())
        self.number = -1
        self.interval_ms = interval_ms
        self.time_ms = START_MS - interval_ms
        self.crash()

    def crash(self) -> None:
        """Drop the process and start a new one on the same log."""
        self.runner = MemoryRunner(self.spec, self.log)

    def compact(self) -> None:
        for name, topic in self.log.topics.items():
            if topic.cleanup == "compact":
                self.log.compact(name)

    def tell(self, event: Event) -> None:
        self.log.append([emit(event)], source="test", event_ids=["e"])

    def tell_bytes(self, payload: bytes | None, type_: str, partition: int = 0) -> None:
        output = Output("inventory", "k", "", type_, payload, partition)
        self.log.append([output], source="test", event_ids=["e"])

    def node(
        self,
        node: str,
        devices: int = 8,
        *,
        type_: str = "a100",
        owner: str | None = None,
        state: NodeState = NodeState.ACTIVE,
        urgent: bool = False,
        **more: Any,
    ) -> None:
        self.tell(
            NodeObserved(
                node=node,
                type=type_,
                cell="cell",
                devices=devices,
                owner_pool=owner,
                state=state,
                urgent=urgent,
                **{"observed_ms": 1, **more},
            )
        )

    def health(self, node: str, *unhealthy: int) -> None:
        self.tell(NodeHealthReported(node=node, unhealthy_devices=unhealthy, reported_ms=1))

    def forget_health(self, node: str) -> None:
        self.log.append([tombstone(NodeHealthReported, node, node)])

    def timeout(self, lease_timeout_ms: int, version: int = 1, effective_ms: int = 0) -> None:
        """Give the platform's document; capacity sees it one step later."""
        document = PlatformDocument(drains=DrainTerms(lease_timeout_ms=lease_timeout_ms))
        self.tell(AccountsChanged(version=version, effective_ms=effective_ms, document=document))

    def tick(self, after_ms: int | None = None) -> int:
        """Close the interval and let the stage work; return its market time."""
        self.number += 1
        self.time_ms += self.interval_ms if after_ms is None else after_ms
        time_ms = self.time_ms
        for topic in ("inventory", "node.health", "accounts"):
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self.number, time_ms))
        assert self.runner.advance() == 1
        return time_ms

    def written(self, topic: str) -> list[tuple[int, str, bytes | None]]:
        """All records that the stage wrote: partition, key, payload."""
        return [
            (partition, entry.key, entry.payload)
            for partition in self.log.partitions(topic)
            for entry in self.log.read(topic, partition, 0)
            if entry.barrier is None
        ]

    def events(self, topic: str) -> list[Any]:
        type_ = self.log.topics[topic].events[0]
        return [decode_inner(type_, p) for _, _, p in self.written(topic) if p is not None]

    def table(self, topic: str) -> dict[str, Any]:
        """Latest event of each key."""
        latest = {event.record_key(): event for event in self.events(topic)}
        return dict(sorted(latest.items()))

    def lost(self) -> list[str]:
        """Return the nodes that are published as lost."""
        return [name for name, node in self.table("nodes").items() if node.lost]

    def supply(self, type_: str = "a100") -> tuple[int, dict[str, int], int]:
        """Shared, own per pool and withheld macc of a type."""
        event = self.table("supply")[type_]
        return event.shared_macc, {o.pool: o.macc for o in event.own}, event.withheld_macc

    def state(self) -> dict[str, str]:
        return dict(state_digest_input(self.log, "capacity"))


@pytest.fixture(scope="session")
def make_capacity() -> Callable[..., Any]:
    return Capacity
