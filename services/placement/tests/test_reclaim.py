"""Who is asked to leave depends on the team that lost quota, and on nobody else (R12, R14)."""

import random
from typing import Any

import pytest

from walras_contracts.drains import VacateReason

CASES = 500
BLOCK = 50


def asked(kit: Any, seed: int, *, with_protected: bool) -> dict[str, str]:
    """Cut quotas of random teams; return who of them is asked to leave."""
    draw = random.Random(seed)
    teams = [f"t{number}" for number in range(draw.randint(2, 4))]
    bench = kit.bench()
    sizes = {team: [draw.randint(1, 4) for _ in range(draw.randint(1, 5))] for team in teams}
    given = [kit.node(f"n{number}", 8) for number in range(12)]
    for team in teams:
        held = sum(sizes[team])
        given.append(kit.quota(team, a=(held, 0, 5)))
        given += [
            bench.job(f"{team}-{place}", size, team=team, limit=draw.choice((None, 7, 20)))
            for place, size in enumerate(sizes[team])
        ]
    bench.step(*given)
    if with_protected:
        # Between the others by name; it keeps all that it has.
        bench.step(
            kit.quota("t1-protected", a=(9, 0, 5)),
            *(bench.job(f"p{n}", 3, team="t1-protected", minimum_run_ms=10**8) for n in range(3)),
        )
    else:
        bench.step()
    cuts = {team: draw.randint(0, sum(sizes[team])) for team in teams if draw.random() < 0.8}
    price = draw.choice((5, 5, 10))
    written = bench.step(*(kit.quota(team, a=(left, 0, price)) for team, left in cuts.items()))
    return dict(kit.vacates(written))


@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_a_protected_team_changes_nothing_about_who_else_must_leave(kit: Any, first: int) -> None:
    some = 0
    for seed in range(first, first + BLOCK):
        without, beside = (asked(kit, seed, with_protected=each) for each in (False, True))
        assert beside == without, f"seed {seed}"
        some += bool(without)
    assert some > BLOCK // 3, "the cases ask for something"


def test_of_ten_gangs_of_ten_one_leaves_when_ten_devices_are_needed(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        *(kit.node(f"n{number}", 5) for number in range(20)),
        kit.quota("t1", a=(100, 0, 5)),
        *(bench.job(f"g{number}", 10) for number in range(10)),
    )
    assert len(bench.leases) == 10
    written = bench.step(kit.quota("t1", a=(90, 0, 5)))
    assert list(kit.vacates(written).values()) == [VacateReason.QUOTA_LOST]


@pytest.mark.parametrize("crash", [False, True])
def test_of_two_equal_jobs_the_one_that_leaves_better_is_asked(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(
        kit.node("n1", 2),
        kit.quota("t1", a=(2, 0, 5)),
        bench.job("hard", 1, limit=6),
        bench.job("easy", 1, limit=60),
        kit.score("easy", 900_000),
        kit.score("hard", 100_000),
    )
    bench.step()
    assert kit.vacates(bench.step(kit.quota("t1", a=(1, 0, 5)))) == {
        "easy": VacateReason.QUOTA_LOST
    }
