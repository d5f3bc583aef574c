"""Seeded input of markets with rounding ``release``: heads that placement says are stuck."""

import random
from collections.abc import Iterable
from typing import Any

from walras_contracts.accounts import MarketDocument, Rounding
from walras_contracts.demand import JobQueued
from walras_contracts.event import Event
from walras_contracts.placing import PlacementMeasured, StuckHead
from walras_runtime.records import Output

CYCLE_MS = 60_000


def head(
    job: JobQueued, waited_cycles: int, now_ms: int, *, has_turn: bool = False, needed: int = 0
) -> StuckHead:
    """A first job of a queue that has waited for a number of cycles."""
    return StuckHead(
        pool=job.pool,
        team=job.team,
        job=job.job,
        reason="waiting_for_quota",
        needed_macc=needed or job.size_macc,
        allocated_macc=0,
        unspent_macc=0,
        pending_since_ms=now_ms - waited_cycles * CYCLE_MS,
        waited_cycles=waited_cycles,
        has_turn=has_turn,
    )


def measured(
    market: str, heads: Iterable[StuckHead], now_ms: int, rounding: Rounding = Rounding.RELEASE
) -> PlacementMeasured:
    """The figures of a cycle, with nothing else in them."""
    fields: dict[str, Any] = dict.fromkeys(PlacementMeasured.model_fields, 0)
    texts = {"market": market, "market_time_ms": now_ms, "rounding": rounding}
    lists: dict[str, Any] = dict.fromkeys(("cells", "unplaced", "preemption_cycles"), ())
    ordered = sorted(heads, key=lambda h: (-h.pending_since_ms, h.team))
    return PlacementMeasured(**{**fields, **texts, **lists, "stuck": tuple(ordered)})


class StuckStream:
    """A stream (`conftest.Stream`) whose markets release, with figures of any first jobs."""

    def __init__(self, kit: Any, seed: int, teams: int = 9, world: Any = None) -> None:
        self.kit = kit
        self.world = kit.world() if world is None else world
        self.stream = kit.stream(self.world, seed, teams=teams)
        self.draw = random.Random(f"stuck {seed}")

    def events(self) -> list[Event | Output]:
        """Input of the next step."""
        found: list[Event | Output] = self.stream.events()
        if self.world.step == 0:
            for market in self.kit.markets[:2]:
                policy = MarketDocument(market=market, rounding=Rounding.RELEASE)
                found.append(self.world.document(policy))
        found += self._wanted_jobs()
        now_ms = self.kit.time_of(self.world.step)
        for market in self.kit.markets:
            if self.draw.random() < 0.9:
                found.append(measured(market, self._heads(market, now_ms), now_ms))
        return found

    def _wanted_jobs(self) -> list[Event]:
        """Jobs that ask for any price, large ones and small ones behind them."""
        found: list[Event] = []
        for team in self.draw.sample(self.stream.teams, 3):
            job = self.kit.queued(
                team,
                f"wanted-{self.world.step}",
                self.draw.choice([1, 1, 2, 3, 6, 9]) * 1000,
                types=(self.draw.choice(self.kit.markets),),
                position=1000 + self.world.step,
                pool_name=self.stream.pool_of(team),
            )
            self.stream.jobs[job.record_key()] = job
            found.append(job)
        return found

    def _heads(self, market: str, now_ms: int) -> list[StuckHead]:
        of_team: dict[str, JobQueued] = {}
        jobs = self.stream.jobs
        keys = sorted(jobs)
        self.draw.shuffle(keys)
        for key in keys:
            if market in jobs[key].types and self.draw.random() < 0.8:
                of_team.setdefault(jobs[key].team, jobs[key])
        return [
            head(
                job,
                self.draw.choice([3, 9, 10, 11, 25, 60]),
                now_ms,
                has_turn=self.draw.random() < 0.4,
            )
            for job in of_team.values()
        ]
