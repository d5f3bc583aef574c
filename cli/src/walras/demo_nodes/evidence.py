"""What the facts are checked against: the committed log, and what the jobs themselves wrote.

Nothing here comes from what the story saw while it ran.
"""

import os
import subprocess
import sys
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.job_files import MODULE, THREADS
from walras.demo_nodes.journal import TrainingJournal, read_journal
from walras.demo_nodes.market_setup import pool_of
from walras.demo_nodes.scenario import NodesScenario
from walras.demo_nodes.training import JOURNAL
from walras.demo_nodes.watching import MODELS, topics_of
from walras.jobs_log.items import Log
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.drains import VacateRequested
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
)
from walras_job import Checkpoint

E = TypeVar("E", bound=Event)
IN_ONE_GO: Final = "in-one-go"
IN_ONE_GO_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A checkpoint that is whole."""

    attempt: int
    step: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. Events are in the order of their partitions.

    ``subject`` is the job whose story is told; ``journals`` are by the keys of the jobs;
    ``digest_in_one_go`` is that of the weights of the same training where nobody warns it.
    """

    scenario: NodesScenario
    prices: tuple[PricePublished, ...]
    vacates: tuple[VacateRequested, ...]
    grants: tuple[LeaseGranted, ...]
    statuses: tuple[LeaseStatusChanged, ...]
    drains: tuple[DrainStatusChanged, ...]
    usage: tuple[UsageMetered, ...]
    charges: tuple[ChargeRated, ...]
    credits: tuple[ChargeCredited, ...]
    journals: dict[str, TrainingJournal]
    checkpoints: tuple[SavedStep, ...]
    digest_in_one_go: str

    @property
    def subject(self) -> tuple[str, str]:
        """Team and job."""
        return self.scenario.subject.team, self.scenario.subject.job

    @property
    def journal(self) -> TrainingJournal:
        """Return the journal of the subject."""
        return self.journals[self.scenario.subject.key]

    def leases(self) -> list[LeaseGranted]:
        """Return the leases of the subject, in the order in which they were granted."""
        first: dict[str, LeaseGranted] = {}
        for grant in sorted(self.grants, key=lambda g: (g.granted_ms, g.attempt)):
            if (grant.team, grant.job) == self.subject:
                first.setdefault(grant.lease, grant)
        return list(first.values())

    def status(self, lease: str, state: LeaseState) -> LeaseStatusChanged | None:
        """Return the first status of a lease in a state."""
        return next((s for s in self.statuses if (s.lease, s.state) == (lease, state)), None)

    def price_history(self) -> "PriceHistory":
        """Return the prices of the subject's pool."""
        pool = pool_of(self.scenario.subject.team)
        points = {
            price.market_time_ms: each.price_micro
            for price in sorted(self.prices, key=lambda p: p.cycle)
            for each in price.pools
            if each.pool == pool and each.price_micro is not None
        }
        return PriceHistory(tuple(sorted(points.items())))


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Prices of a pool, µcr per accelerator-hour, each with the market time from which it holds."""

    points: tuple[tuple[int, int], ...]

    def at(self, at_ms: int) -> int | None:
        """Return the price in force at a market time; None before the first."""
        place = bisect_right(self.points, at_ms, key=lambda point: point[0])
        return self.points[place - 1][1] if place else None

    def segments(self, start_ms: int, end_ms: int) -> list[tuple[int, int, int | None]]:
        """Return [start, end) cut where the price changes: start, end, price."""
        inner = [at for at, _ in self.points if start_ms < at < end_ms]
        borders = [start_ms, *inner, end_ms]
        return [(a, b, self.at(a)) for a, b in pairwise(borders)]


def read_evidence(log: Log, scenario: NodesScenario, folders: NodeFolders) -> Evidence:
    """Read the log, the journals and the checkpoints, and train once more in one go."""
    events: list[Event] = []
    for topic, models in topics_of(MODELS):
        events += [item.event for item in log.read(topic, *models) if item.event is not None]

    def of(model: type[E]) -> tuple[E, ...]:
        return tuple(event for event in events if isinstance(event, model))

    subject = scenario.subject
    saved = Checkpoint(folders.saved(subject.key)).saved()
    return Evidence(
        scenario=scenario,
        prices=of(PricePublished),
        vacates=of(VacateRequested),
        grants=of(LeaseGranted),
        statuses=of(LeaseStatusChanged),
        drains=of(DrainStatusChanged),
        usage=of(UsageMetered),
        charges=of(ChargeRated),
        credits=of(ChargeCredited),
        journals={job.key: read_journal(folders.journal(job.key)) for job in scenario.jobs},
        checkpoints=tuple(SavedStep(each.attempt, each.step) for each in saved),
        digest_in_one_go=digest_in_one_go(subject.steps, folders.checkpoints / IN_ONE_GO),
    )


def digest_in_one_go(steps: int, directory: Path) -> str:
    """Train from the first step to the last in a process of its own; return the weights' digest.

    Raises
    ------
    subprocess.SubprocessError
        The training failed.
    """
    outside: dict[str, Any] = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
    words = ["--steps", str(steps), "--checkpoints", str(directory)]
    subprocess.run(
        [sys.executable, "-m", MODULE, *words],
        env=outside | THREADS,
        check=True,
        timeout=IN_ONE_GO_WITHIN_S,
    )
    return read_journal(directory / JOURNAL).attempts[-1].last_digest
