"""One replay of a trace under one pair of policies, on the log in memory, and its whole report.

The stages are those of the services, wired as for a replay, but for invoicing, on which nothing
depends; what they decide is what they decide on a real broker (`tests/e2e` compares digests). What
all have read leaves memory for a file per topic, from which the report is computed.
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, BinaryIO, Final

from tests.simulation.world import World
from walras.demo.policies import Policies, with_policies
from walras.demo.run import REPORTED
from walras.report import LogRecord, build_report, context_of
from walras.scenario import load_scenario
from walras.trace import load_window
from walras_contracts.accounts import Rounding
from walras_runtime.memory.log import MemoryLog

NOT_NEEDED: Final = "invoicing/0"
Told = Callable[[int, int], None]
"""Takes how many steps are done, of how many."""


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """What is replayed: a part of a scenario's trace, under one rounding and one retention."""

    scenario: Path
    hours: int
    seed: int
    rounding: Rounding
    retention_gap_ppm: int
    steps: int | None = None
    """After so many it is stopped; for tests."""

    @property
    def retention(self) -> str:
        """Whether running jobs are retained, in a word."""
        return "retention" if self.retention_gap_ppm else "none"

    @property
    def name(self) -> str:
        """Name of the run, in tables and of its folder."""
        return f"{self.rounding.value}-{self.retention}"


def all_runs(scenario: Path, hours: int, seed: int) -> list[PolicyRun]:
    """Return the runs that are compared: every rounding, with the scenario's retention and without.

    Raises
    ------
    ScenarioError
        The scenario or its trace cannot be used, or has fewer hours.
    """
    loaded = load_scenario(scenario)
    load_window(loaded, hours, seed)
    gap_ppm = loaded.platform.retention_gap_ppm
    return [
        PolicyRun(scenario, hours, seed, rounding, gap)
        for rounding in (Rounding.BACKFILL, Rounding.RESERVE, Rounding.RELEASE)
        for gap in (gap_ppm, 0)
    ]


class Spool:
    """Takes records out of a log in memory, topic by topic, into files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        for topic in REPORTED:
            self._files[topic] = (folder / topic).open("w+b")

    def take(self, log: MemoryLog) -> None:
        """Empty the log; all stages must have read what it holds, and none may start anew."""
        for (topic, partition), entries in log.entries.items():
            file = self._files.get(topic)
            if file is not None:
                for e in entries:
                    if e.barrier is None:
                        record = (partition, e.offset, e.key, e.type, e.payload)
                        pickle.dump(record, file, pickle.HIGHEST_PROTOCOL)
            entries.clear()

    def records(self, topic: str) -> Iterator[LogRecord]:
        """Yield the records of a topic as they were written; no barriers."""
        file = self._files[topic]
        end = file.tell()
        file.seek(0)
        while file.tell() < end:
            partition, offset, key, kind, payload = pickle.load(file)
            yield LogRecord(topic, partition, offset, 0, key, kind, payload)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()


def replay_report(run: PolicyRun, folder: Path, told: Told) -> dict[str, Any]:
    """Replay a run and return its report; ``folder`` holds the log meanwhile.

    Raises
    ------
    ScenarioError
        The scenario or its trace cannot be used.
    """
    began_s = perf_counter()
    window = load_window(load_scenario(run.scenario), run.hours, run.seed)
    replay = with_policies(window, Policies(run.rounding, run.retention_gap_ppm))
    world = World(partitions=replay.scenario.log.partitions)
    del world.runners[NOT_NEEDED]
    with TemporaryDirectory(dir=folder) as place:
        spool = Spool(Path(place))
        try:
            for number in world.replay(replay):
                spool.take(world.log)
                told(number, replay.cycles)
                if number == run.steps:
                    break
            replay_s = round(perf_counter() - began_s)
            context = context_of(
                replay, {"broker": "the log in memory", "replay_seconds": replay_s}
            )
            return build_report(context, {topic: spool.records(topic) for topic in REPORTED})
        finally:
            spool.close()
