"""The whole market in one process, on the log in memory: the same stages, no broker.

A world is driven like the replay driver drives the real one. A move is one step of one stage. With
a chooser the moves come in any order, and with trouble a stage is crashed (dropped and built anew
on the same log) or a topic compacted between any two of them; what is decided must not change.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import walras_billing.settings
import walras_billing.wiring
import walras_capacity.settings
import walras_capacity.wiring
import walras_clearing_service.settings
import walras_clearing_service.wiring
import walras_drain.settings
import walras_drain.wiring
import walras_intake.settings
import walras_intake.wiring
import walras_invoicing.settings
import walras_invoicing.wiring
import walras_node_agent.settings
import walras_node_agent.wiring
import walras_placement.settings
import walras_placement.wiring
from walras.report.digests import DECIDED_TOPICS, TopicDigest
from walras.report.records import LogRecord
from walras.trace import Replay
from walras_contracts.topics import load_topics
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import BARRIER_TYPE, Barrier, Output, emit
from walras_runtime.stage import StageSpec

BOOTSTRAP = "memory:0"
FAR = 2**62
"""Behind the end of every partition."""


def specs(partitions: int | None = None) -> list[StageSpec]:
    """Return the deciding services as a replay wires them."""
    shared: dict[str, Any] = {
        "kafka_bootstrap": BOOTSTRAP,
        "mode": "replay",
        "partitions": partitions,
    }
    return [
        walras_intake.wiring.build(walras_intake.settings.Settings(**shared)),
        walras_capacity.wiring.build(walras_capacity.settings.Settings(**shared)),
        walras_clearing_service.wiring.build(walras_clearing_service.settings.Settings(**shared)),
        walras_placement.wiring.build(walras_placement.settings.Settings(**shared)),
        walras_drain.wiring.build(walras_drain.settings.Settings(**shared)),
        walras_node_agent.wiring.build(walras_node_agent.settings.Settings(**shared)),
        walras_billing.wiring.build(walras_billing.settings.Settings(**shared)),
        walras_invoicing.wiring.build(walras_invoicing.settings.Settings(**shared)),
    ]


@dataclass(frozen=True)
class Trouble:
    """The chances that a stage crashes, and that a topic is compacted, after each single move."""

    crash: float = 0.0
    compact: float = 0.0


@dataclass
class World:
    """A log in memory and one runner for each stage and partition.

    ``chooser`` decides in which order runners move, and what goes wrong in between; every order
    gives the same decisions. ``partitions`` is that of the spread topics; None: the registry's.
    ``crashes`` and ``compacted`` count what went wrong, the latter in records that are gone.
    """

    chooser: random.Random | None = None
    partitions: int | None = None
    trouble: Trouble = Trouble()
    crashes: int = field(init=False, default=0)
    compacted: int = field(init=False, default=0)
    log: MemoryLog = field(init=False)
    runners: dict[str, MemoryRunner] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.log = MemoryLog(load_topics(self.partitions))
        for spec in specs(self.partitions):
            count = self.log.topics[spec.state_topic].partitions if spec.spread else 1
            for partition in range(count):
                self.runners[f"{spec.service}/{partition}"] = MemoryRunner(
                    spec, self.log, partition
                )

    def write(self, barrier: Barrier, outputs: Sequence[Output] = ()) -> None:
        """Write what the outside writes in one interval, then its barrier."""
        self.log.append(
            outputs,
            source="walras/replay",
            event_ids=[f"walras/replay/{barrier.number}/{i}" for i in range(len(outputs))],
        )
        for topic in self.log.topics.values():
            if topic.barriers == "outside":
                for partition in range(topic.partitions):
                    self.log.append_barrier(topic.name, partition, barrier)

    def settle(self) -> int:
        """Let every stage do what it can, until nothing moves; return the steps done."""
        done = 0
        while True:
            names = sorted(self.runners)
            if self.chooser is not None:
                self.chooser.shuffle(names)
            moved = sum(self._move(name) for name in names)
            if moved == 0:
                return done
            done += moved

    def _move(self, name: str) -> int:
        """Let a stage do one step if it can, then what goes wrong; return the steps done."""
        moved = self.runners[name].advance(1)
        if self.chooser is not None and moved:
            if self.chooser.random() < self.trouble.crash:
                self.crash(self.chooser.choice(sorted(self.runners)))
            if self.chooser.random() < self.trouble.compact:
                compacted = [t.name for t in self.log.topics.values() if t.cleanup == "compact"]
                self.compact_what_was_read(self.chooser.choice(sorted(compacted)))
        return moved

    def crash(self, name: str) -> None:
        """Drop a runner with all it had in memory and build it anew on the log."""
        old = self.runners[name]
        self.runners[name] = MemoryRunner(old.spec, self.log, old.partition)
        self.crashes += 1

    def compact_what_was_read(self, name: str) -> None:
        """Compact a topic up to where its slowest reader stands, as a broker's cleaner does.

        The cleaner leaves alone what is younger than ``min.compaction.lag.ms``; a reader that is
        further behind than that stops with ``offset_gap`` (step protocol §5).
        """
        for partition in self.log.partitions(name):
            until = min(
                (
                    runner.position.offsets.get((name, partition), 0)
                    for runner in self.runners.values()
                    if any(
                        source.topic == name
                        and (not source.own_partition or runner.partition == partition)
                        for source in runner.spec.inputs
                    )
                ),
                default=FAR,
            )
            held = self.log.entries.get((name, partition), [])
            last = {e.key: e.offset for e in held if e.offset < until}
            kept = [e for e in held if e.offset >= until or last[e.key] == e.offset]
            self.log.entries[name, partition] = kept
            self.compacted += len(held) - len(kept)

    def compact(self) -> None:
        """Compact every compacted topic as far as it goes: all stages stand at one barrier."""
        for topic in self.log.topics.values():
            if topic.cleanup == "compact":
                self.log.compact(topic.name)

    def replay(self, replay: Replay) -> Iterator[int]:
        """Drive a replay; yields after each step, when nothing moves any more."""
        setup = [emit(event) for event in (*replay.accounts, *replay.inventory)]
        self.write(Barrier(0, replay.start_ms), setup)
        self.settle()
        yield 0
        for interval in replay.intervals():
            jobs = [emit(job) for job in interval.jobs]
            self.write(Barrier(interval.number, interval.end_ms), jobs)
            self.settle()
            yield interval.number

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each decided stream, as the report defines it."""
        found = {}
        for topic in DECIDED_TOPICS:
            digest = TopicDigest()
            for partition in self.log.partitions(topic):
                for e in self.log.read(topic, partition, 0):
                    if e.type != BARRIER_TYPE:
                        digest.add(
                            LogRecord(topic, partition, e.offset, 0, e.key, e.type, e.payload)
                        )
            found[topic] = digest.hexdigest()
        return found
