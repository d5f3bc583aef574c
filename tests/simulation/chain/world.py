"""Placement, drain, the simulated fleet and billing on one log in memory, step by step."""

from collections.abc import Callable, Iterable

from walras_billing.settings import Settings as BillingSettings
from walras_billing.wiring import build as build_billing
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_drain.settings import Settings as DrainSettings
from walras_drain.wiring import build as build_drain
from walras_node_agent.settings import Settings as FleetSettings
from walras_node_agent.wiring import build as build_fleet
from walras_placement.settings import Settings as PlacementSettings
from walras_placement.wiring import build as build_placement
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output
from walras_runtime.stage import StageSpec

START_MS = 1_728_000_000
MINUTE_MS = 60_000
DRIVEN = (
    *("nodes", "quotas", "queue", "prices", "accounts"),
    *("lease.status", "drain.status", "usage", "node.health", "drain.orders"),
)

Restart = Callable[[int, str], bool]


def stages() -> list[tuple[str, StageSpec, int]]:
    placement = build_placement(PlacementSettings(kafka_bootstrap="none"))
    drain = build_drain(DrainSettings(kafka_bootstrap="none", mode="replay"))
    fleet = build_fleet(FleetSettings(kafka_bootstrap="none"))
    billing = build_billing(BillingSettings(kafka_bootstrap="none"))
    spread = load_topics()["state.billing"].partitions
    return [
        ("placement", placement, 0),
        ("drain", drain, 0),
        ("fleet", fleet, 0),
        *((f"billing-{partition}", billing, partition) for partition in range(spread)),
    ]


class World:
    """A log with the four services; ``restart(step, name)`` says who is lost before a step."""

    def __init__(self, restart: Restart = lambda _step, _name: False) -> None:
        self.log = MemoryLog(load_topics())
        self.step = -1
        self._restart = restart
        self._runners = {
            name: MemoryRunner(spec, self.log, partition) for name, spec, partition in stages()
        }

    def tick(self, outputs: Iterable[Output]) -> None:
        self.log.append(list(outputs))
        self.step += 1
        barrier = Barrier(self.step, START_MS + self.step * MINUTE_MS)
        for topic in DRIVEN:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, barrier)
        for name, spec, partition in stages():
            if self._restart(self.step, name):
                self._runners[name] = MemoryRunner(spec, self.log, partition)
            assert self._runners[name].advance() == 1

    def compact(self) -> None:
        for topic in self.log.topics.values():
            if topic.cleanup == "compact":
                self.log.compact(topic.name)
        for name, spec, partition in stages():
            self._runners[name] = MemoryRunner(spec, self.log, partition)

    def events(self, topic: str, since: dict[int, int] | None = None) -> list[Entry]:
        """Return a topic's records, partition by partition, from the given offsets on."""
        since = {} if since is None else since
        found = []
        for partition in self.log.partitions(topic):
            for entry in self.log.read(topic, partition, since.get(partition, 0)):
                since[partition] = entry.offset + 1
                if entry.barrier is None:
                    found.append(entry)
        return found


def decoded(entries: Iterable[Entry]) -> list[Event]:
    return [decode_inner(e.type, e.payload) for e in entries if e.payload is not None]


def content(world: World) -> dict[tuple[str, int], list[Entry]]:
    return dict(world.log.entries)
