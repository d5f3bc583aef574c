"""R13: what teams were granted, used and offered at most can be looked up for ninety days."""

import random

import pytest

from libs.contracts.tests.test_cycle_frames import rows
from walras_contracts.cycle_frames import FoldedJob, FoldedMarket, FoldedTeam
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.market import CycleFramed, CycleRecorded, PricePublished
from walras_contracts.placing import PlacementMeasured
from walras_contracts.topics import load_topics
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import UsageMetered

DAYS = 90
DAY_MS = 86_400_000
FOR_EVER = -1
KEY_EVERY = 60
HOURS = 24 * DAYS
TEAMS = ("ads", "speech", "vision")

KEPT = {
    "granted, and the limits of jobs, cycle by cycle": CycleFramed.TOPIC,
    "supply and prices of cycles": CycleRecorded.TOPIC,
    "prices": PricePublished.TOPIC,
    "used": UsageMetered.TOPIC,
    "time held, occupied, idle": UsageSettled.TOPIC,
    "paid": LedgerEntryPosted.TOPIC,
    "incomes and budgets": "accounts",
    "quota that could not be placed, and why": PlacementMeasured.TOPIC,
}


@pytest.mark.parametrize("name", sorted(set(KEPT.values())))
def test_history_is_kept_for_ninety_days_whole(name: str) -> None:
    topic = load_topics()[name]
    assert topic.cleanup == "delete", "compaction would keep the last of it alone"
    assert topic.retention_ms == FOR_EVER or topic.retention_ms >= DAYS * DAY_MS


def history(seed: int) -> tuple[list[CycleFramed], list[tuple[dict[str, int], dict[str, int]]]]:
    """A cycle an hour for ninety days; return the frames, and by cycle grants and limits."""
    draw = random.Random(seed)
    jobs: dict[str, FoldedJob] = {}
    teams: dict[str, FoldedTeam] = {}
    frames, truth = [], []
    for cycle in range(HOURS):
        changed_jobs, changed_teams = {}, {}
        for team in TEAMS:
            if cycle == 0 or draw.random() < 0.3:
                changed_jobs[f"{team}/job"] = FoldedJob(draw.randint(1, 9), draw.randrange(100))
                changed_teams[team] = FoldedTeam("east", 1, draw.randrange(9_000), 0)
        jobs |= changed_jobs
        teams |= changed_teams
        is_key = cycle % KEY_EVERY == 0
        frames.append(
            rows(
                dict(jobs) if is_key else changed_jobs,
                dict(teams) if is_key else changed_teams,
                cycle=cycle,
                kind="key" if is_key else "changes",
            )
        )
        granted = {team: row.allocated_macc for team, row in teams.items()}
        limits = {key: job.limit_micro or 0 for key, job in jobs.items()}
        truth.append((granted, limits))
    return frames, truth


@pytest.mark.parametrize("seed", range(3))
def test_grant_and_limit_of_any_hour_of_ninety_days_are_found_again(seed: int) -> None:
    frames, truth = history(seed)
    draw = random.Random(seed)
    for cycle in [0, HOURS - 1, *(draw.randrange(HOURS) for _ in range(60))]:
        market = FoldedMarket("a100")
        for frame in frames[cycle - cycle % KEY_EVERY : cycle + 1]:
            market.apply(frame)
        assert market.is_whole
        found = (
            {team: row.allocated_macc for team, row in market.teams.items()},
            {key: job.limit_micro for key, job in market.jobs.items()},
        )
        assert found == truth[cycle], f"seed {seed}, cycle {cycle}"
