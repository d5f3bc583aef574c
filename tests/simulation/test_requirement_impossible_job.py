"""R11 in the whole market: a job that no supply can hold changes no price and no grant."""

import random
from typing import Any

import pytest

from tests.simulation.test_requirement_same_job import MINUTE_MS, START_MS, events
from tests.simulation.world import World
from walras_contracts.accounts import AccountsRequested, PoolDocument, TeamAccount
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import JobSubmitted
from walras_contracts.market import PricePublished
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged
from walras_runtime.records import Barrier, Output, emit

TEAMS = ("ads", "huge", "speech", "vision")
STEPS = 60
COMES = 5
PERCENT_MOST = 10


def setup() -> list[Output]:
    teams = tuple(TeamAccount(team=team, income_local_per_hour=1) for team in TEAMS)
    document = PoolDocument(pool="p", weight_micro_per_hour=1_000_000_000, teams=teams)
    nodes = [
        NodeObserved(
            node=name, type="a100", cell="c", devices=8, owner_pool=None, observed_ms=START_MS
        )
        for name in ("n1", "n2")
    ]
    return [emit(AccountsRequested(document=document)), *map(emit, nodes)]


def job(team: str, name: str, size: int, *, run_ms: int, limit: int | None, at_ms: int) -> Output:
    return emit(
        JobSubmitted(
            team=team,
            job=name,
            types=("a100",),
            size_macc=1_000 * size,
            limit_micro=limit,
            expected_run_ms=run_ms,
            submitted_ms=at_ms,
        )
    )


def market(seed: int, *, impossible: bool) -> World:
    """Three teams whose jobs come and go; perhaps a fourth with a job of forty on sixteen."""
    draw = random.Random(seed)
    world = World()
    world.write(Barrier(0, START_MS), setup())
    world.settle()
    for number in range(1, STEPS):
        now_ms = START_MS + number * MINUTE_MS
        given = []
        for place in range(draw.randint(0, 3)):
            team = draw.choice(("ads", "speech", "vision"))
            limit = draw.choice((None, 40_000_000, 90_000_000))
            given.append(
                job(
                    team,
                    f"j{number}-{place}",
                    draw.randint(1, 6),
                    run_ms=draw.randint(2, 12) * MINUTE_MS,
                    limit=limit,
                    at_ms=now_ms - 1,
                )
            )
        if impossible and number == COMES:
            given.insert(
                0, job("huge", "never", 40, run_ms=MINUTE_MS, limit=None, at_ms=now_ms - 2)
            )
        world.write(Barrier(number, now_ms), given)
        world.settle()
    return world


def waits(world: World) -> dict[str, int]:
    """How long each job waited for its first grant."""
    found: dict[str, int] = {}
    for status in events(world, JobStatusChanged):
        if status.state is JobState.RUNNING:
            found.setdefault(status.job, status.waited_ms)
    return found


def prices(world: World) -> list[tuple[int, Any]]:
    return [(each.cycle, each.pools) for each in events(world, PricePublished)]


@pytest.mark.parametrize("seed", range(3))
def test_an_impossible_job_changes_no_price_and_delays_no_grant(seed: int) -> None:
    without, beside = (market(seed, impossible=each) for each in (False, True))
    alone, shared = waits(without), waits(beside)
    print(f"seed {seed}: {len(alone)} grants, waited {sum(alone.values())} ms")
    assert sum(alone.values()) > 0, "the market is short of supply"
    assert len(alone) > STEPS // 2
    assert 100 * sum(shared.values()) <= (100 + PERCENT_MOST) * sum(alone.values())
    assert shared == alone
    assert prices(beside) == prices(without)
    (told,) = {
        (status.state, status.reason, status.needed_macc, status.available_macc)
        for status in events(beside, JobStatusChanged)
        if status.job == "never"
    }
    assert told == (JobState.PENDING, WaitReason.EXCEEDS_SUPPLY, 40_000, 16_000)
