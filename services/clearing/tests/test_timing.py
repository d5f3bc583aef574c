"""How long a cycle takes in this process: printed, never asserted."""

import random
import statistics
import sys
import time
from typing import Any

import pytest

from walras_clearing_service.core import ClearingStage, Options
from walras_contracts.event import Event
from walras_contracts.work import JobState
from walras_runtime.records import Barrier, Record, Step

MARKETS = ("a100", "h100", "l40s")
CYCLES = 20


def load(kit: Any, jobs: int, teams: int) -> tuple[ClearingStage, list[Event]]:
    """A stage that knows a queue, and the queue's events."""
    draw = random.Random(jobs)
    stage = ClearingStage(Options(1, 2, live=False), kit.solver)
    world = kit.world()
    members: dict[str, dict[str, int]] = {}
    for number in range(teams):
        members.setdefault(f"pool-{number % 6}", {})[f"team-{number}"] = 1 + number % 3
    events: list[Event] = [
        world.document(kit.pool(name, 100_000_000, incomes)) for name, incomes in members.items()
    ]
    events += [kit.supply(market, jobs * 300, {"pool-0": jobs * 20}) for market in MARKETS]
    for number in range(jobs):
        team = f"team-{draw.randrange(teams)}"
        types = tuple(draw.sample(MARKETS, draw.randrange(1, 4)))
        size = draw.choice([1, 1, 1, 2, 4, 8]) * 1000
        limit = draw.choice([None, None, 0, 200_000, 800_000])
        job = f"job-{number}"
        gang = draw.random() < 0.5
        events.append(
            kit.queued(team, job, size, types=types, limit=limit, position=number, gang=gang)
        )
        if draw.random() < 0.25:
            events.append(kit.status(team, job, JobState.RUNNING, market=types[0], started_ms=1))
    for event in events:
        stage.fold(as_record(event))
    return stage, events


def as_record(event: Event) -> Record:
    return Record(event.TOPIC, 0, 0, event.record_key(), event.TYPE, b"", event)


@pytest.mark.parametrize(("jobs", "teams"), [(1_500, 30), (10_000, 30), (10_000, 300)])
def test_the_time_of_a_cycle_is_printed(
    kit: Any, jobs: int, teams: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stage, events = load(kit, jobs, teams)
    draw = random.Random(1)
    spent = []
    for cycle in range(CYCLES):
        changed = [as_record(event) for event in draw.sample(events, jobs // 100)]
        start = time.process_time()
        for record in changed:
            stage.fold(record)
        result = stage.step(Step(Barrier(cycle, kit.time_of(cycle)), {}))
        spent.append((time.process_time() - start) * 1000)
        assert result.outputs
    first, later = spent[0], sorted(spent[1:])
    with capsys.disabled():
        sys.stdout.write(
            f"\ncycle of {jobs} jobs, {teams} teams, 3 markets, 1 % changed, CPU time: first "
            f"{first:.1f} ms, p50 {statistics.median(later):.1f} ms, max {later[-1]:.1f} ms\n"
        )
