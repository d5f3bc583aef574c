"""O19: a job that is submitted again and again is one job: what is used stays what one uses."""

from typing import Any

import pytest

from tests.simulation.world import World
from walras_contracts.accounts import AccountsRequested, PoolDocument, TeamAccount
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import DemandRejected, JobSubmitted
from walras_contracts.market import CycleSummarised
from walras_contracts.registry import decode_inner
from walras_contracts.work import JobStatusChanged, LeaseGranted
from walras_runtime.records import Barrier, Output, emit

START_MS = 1_728_000_000_000
MINUTE_MS = 60_000
TIMES = 100
DAY_MS = 86_400_000


def accounts() -> list[Output]:
    document = PoolDocument(
        pool="p",
        weight_micro_per_hour=1_000_000_000,
        teams=(TeamAccount(team="team-a", income_local_per_hour=1),),
    )
    node = NodeObserved(
        node="n1", type="a100", cell="c", devices=16, owner_pool=None, observed_ms=START_MS
    )
    return [emit(AccountsRequested(document=document)), emit(node)]


def j1(at_ms: int) -> Output:
    return emit(
        JobSubmitted(
            team="team-a",
            job="j1",
            types=("a100",),
            size_macc=4_000,
            expected_run_ms=10 * DAY_MS,
            submitted_ms=at_ms,
        )
    )


def events(world: World, model: type[Any]) -> list[Any]:
    return [
        decode_inner(entry.type, entry.payload)
        for partition in world.log.partitions(model.TOPIC)
        for entry in world.log.read(model.TOPIC, partition, 0)
        if entry.barrier is None and entry.payload is not None and entry.type == model.TYPE
    ]


def used_macc(world: World) -> int:
    """What leases hold, by the log: the last record of each part."""
    last: dict[str, int] = {}
    for partition in world.log.partitions(LeaseGranted.TOPIC):
        for entry in world.log.read(LeaseGranted.TOPIC, partition, 0):
            if entry.barrier is not None:
                continue
            if entry.payload is None:
                last.pop(entry.key, None)
                continue
            lease = decode_inner(entry.type, entry.payload)
            assert isinstance(lease, LeaseGranted)
            last[entry.key] = lease.size_macc
    return sum(last.values())


@pytest.mark.parametrize("crash_every", [0, 7], ids=["calm", "crashing"])
def test_a_job_of_four_that_is_submitted_twice_a_hundred_times_uses_four(crash_every: int) -> None:
    world = World()
    world.write(Barrier(0, START_MS), accounts())
    world.settle()
    used = []
    for number in range(1, TIMES + 1):
        now_ms = START_MS + number * MINUTE_MS
        world.write(Barrier(number, now_ms), [j1(now_ms - 2), j1(now_ms - 1)])
        world.settle()
        used.append(used_macc(world))
        if crash_every and number % crash_every == 0:
            for name in sorted(world.runners):
                world.crash(name)
    assert used == [4_000] * TIMES
    refused = events(world, DemandRejected)
    assert [each.code for each in refused] == ["job_exists"] * (2 * TIMES - 1)
    assert {status.job for status in events(world, JobStatusChanged)} == {"j1"}
    assert {status.attempt for status in events(world, JobStatusChanged)} <= {0, 1}
    told = events(world, CycleSummarised)
    assert {summary.demand_macc for summary in told} <= {0, 4_000}
    assert {summary.allocated_macc for summary in told} <= {0, 4_000}
