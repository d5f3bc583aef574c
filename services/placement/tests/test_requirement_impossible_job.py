"""R11: a job that fits no supply is parked, and named; others are granted no later for it."""

import random
from typing import Any

import pytest

from walras_contracts.wait_reasons import NO_PLACE, WaitReason
from walras_runtime.records import Output

SEEDS = range(5)
STEPS = 120
PERCENT_MOST = 10


def latencies(kit: Any, seed: int, *, impossible: bool) -> tuple[dict[str, int], Any]:
    """Jobs of four teams come and go; return how long each waited for its grant, in ms."""
    draw = random.Random(seed)
    bench = kit.bench()
    bench.step(
        kit.node("n1", 4), kit.node("n2", 4), *(kit.quota(f"t{n}", a=(2, 0, 5)) for n in range(4))
    )
    waited: dict[str, int] = {}
    for number in range(STEPS):
        given: list[Output] = []
        for _ in range(draw.randint(0, 2)):
            name = f"j{number}-{len(given)}"
            given.append(
                bench.job(
                    name,
                    draw.randint(1, 2),
                    team=f"t{draw.randrange(4)}",
                    submitted_minute=number + 1,
                )
            )
        for job in sorted(bench.leases):
            if draw.random() < 0.25:
                given += bench.freed(job)
        if impossible and number == 3:
            # First in the queues of two teams, of which one has the most quota of all.
            given.insert(0, kit.quota("huge", a=(8, 0, 5)))
            given.insert(1, bench.job("never", 64, team="huge", limit=None))
            given.insert(2, bench.job("neither", 9, team="t0", limit=None))
        for name in kit.granted(bench.step(*given)):
            waited.setdefault(name, bench.statuses[name].waited_ms)
    return waited, bench


@pytest.mark.parametrize("seed", SEEDS)
def test_grants_of_the_others_come_when_they_come_without_it(kit: Any, seed: int) -> None:
    (without, _), (beside, bench) = (
        latencies(kit, seed, impossible=each) for each in (False, True)
    )
    assert beside.keys() == without.keys()
    total, total_beside = sum(without.values()), sum(beside.values())
    assert len(without) > STEPS // 2
    assert total > 0, "somebody waits at all"
    assert 100 * total_beside <= (100 + PERCENT_MOST) * total
    assert beside == without, "it is more than the bound asks for: nobody waits any longer"
    for name, size_macc in (("never", 64_000), ("neither", 9_000)):
        status = bench.statuses[name]
        assert (status.state.value, status.reason) == ("pending", WaitReason.EXCEEDS_SUPPLY)
        assert (status.needed_macc, status.available_macc) == (size_macc, 8_000)
        assert status.reason in NO_PLACE, "clearing offers it no more"


def test_it_is_told_once_and_not_again_and_again(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)), bench.job("never", 9))
    told = []
    for number in range(50):
        written = bench.step(bench.job(f"j{number}", 1), *_freed(bench))
        told += [e for e in written if getattr(e, "job", "") == "never"]
    assert told == []
    bench.step(kit.node("n2", 16))
    bench.step(kit.quota("t1", a=(20, 0, 5)))
    assert bench.states()["never"] == "running", "parked until there is enough, not for ever"


def _freed(bench: Any) -> list[Output]:
    return [each for job in sorted(bench.leases)[:1] for each in bench.freed(job)]
