"""R4 and R5: no lease outlives its holder for long, and no device is sold before it is safe."""

import random

import pytest

from tests.simulation.silent_nodes import (
    CYCLE_MS,
    INTERVAL_MS,
    TIMEOUT_MS,
    Floor,
    heartbeat,
    job,
    node,
    quota,
    said,
)
from walras_contracts.drains import VacateReason
from walras_contracts.work import JobState, LeaseOutcome, LeaseState

NODES = 1_000
RUNS = 10
"""Together ten thousand agents that crash at random points."""
STEPS = 60


@pytest.mark.parametrize("seed", range(RUNS))
def test_no_lease_outlives_its_holder_by_more_than_the_timeout_and_a_cycle(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"n{number:04d}" for number in range(NODES)]
    crash_at = {name: draw.randint(3, STEPS - 25) for name in names}
    phase = {name: draw.randrange(2) for name in names}
    floor = Floor()
    floor.step([*map(node, names), quota(NODES), *(job(f"j{n}", n) for n in range(NODES))])
    where = {lease.job: lease.node for lease in floor.leases.values()}
    assert sorted(where.values()) == names
    heard: dict[str, int] = {}
    ended: dict[str, int] = {}
    for number in range(1, STEPS):
        beating = [
            name
            for name in names
            if number < crash_at[name] and (number == 1 or number % 2 == phase[name])
        ]
        if draw.random() < 0.2:
            floor.crash(draw.randrange(2))
        floor.step([heartbeat(name, floor.now_ms) for name in beating])
        heard.update(dict.fromkeys(beating, floor.now_ms))
        for name, status in floor.statuses.items():
            if status.state is not JobState.RUNNING and name not in ended:
                ended[name] = floor.now_ms
    outlived = [ended[name] - heard[where[name]] for name in sorted(where)]
    print(f"seed {seed}: the longest silent lease lasted {max(outlived)} ms")
    assert min(outlived) >= TIMEOUT_MS
    assert max(outlived) <= TIMEOUT_MS + CYCLE_MS
    assert floor.supply["a"].withheld_macc == 1000 * NODES
    assert len(floor.leases) == NODES, "the devices are still held"


@pytest.fixture
def floor() -> Floor:
    """A node with an agent and a job, and one with neither."""
    floor = Floor()
    floor.step([node("n1"), quota(1), job("j1", 0), heartbeat("n1", floor.now_ms)])
    floor.step([node("n2"), heartbeat("n1", floor.now_ms)])
    assert floor.state("j1") == "running"
    return floor


def silence(floor: Floor, ms: int) -> None:
    for _ in range(ms // INTERVAL_MS):
        floor.step()


def test_a_silent_node_gives_its_quota_back_once_and_its_devices_when_they_are_free(
    floor: Floor,
) -> None:
    (first,) = floor.leases.values()
    silence(floor, TIMEOUT_MS)
    again = [lease for lease in floor.leases.values() if lease.node == "n2"]
    assert [lease.attempt for lease in again] == [2], "its job runs elsewhere, on the same quota"
    assert (floor.supply["a"].shared_macc, floor.supply["a"].withheld_macc) == (1000, 1000)
    floor.step([job("j2", 1), quota(2)])
    silence(floor, TIMEOUT_MS)
    assert floor.state("j2") == "pending", "unknown is not free"

    floor.step([heartbeat("n1", floor.now_ms), said(first, LeaseState.RUNNING, floor.now_ms)])
    assert {(v.lease, v.reason) for v in floor.vacates} == {
        (first.lease, VacateReason.DEVICE_WITHDRAWN)
    }
    assert floor.supply["a"].withheld_macc == 0
    assert floor.state("j2") == "pending"
    freed = said(first, LeaseState.FREED, floor.now_ms, LeaseOutcome.VACATED)
    floor.step([freed, heartbeat("n1", floor.now_ms)])
    assert floor.state("j2") == "running"


def test_an_operator_that_fences_a_silent_node_gives_its_devices_back(floor: Floor) -> None:
    silence(floor, TIMEOUT_MS)
    floor.step([job("j2", 1), quota(2)])
    assert floor.state("j2") == "pending"
    floor.step([node("n1", fenced_at_ms=floor.now_ms)])
    assert floor.state("j2") == "running"
    assert floor.supply["a"].withheld_macc == 0
    before = dict(floor.leases)
    floor.step([node("n1", fenced_at_ms=floor.now_ms - INTERVAL_MS)])
    assert floor.leases == before, "the same fence, said again"


def test_an_outage_of_barriers_of_three_minutes_releases_nothing(floor: Floor) -> None:
    silence(floor, TIMEOUT_MS - INTERVAL_MS)
    before = dict(floor.leases), dict(floor.statuses), dict(floor.supply)
    floor.step(after_ms=180_000)
    silence(floor, TIMEOUT_MS - INTERVAL_MS)
    assert (floor.leases, floor.statuses, floor.supply) == before
    floor.step()
    assert floor.supply["a"].withheld_macc == 1000
