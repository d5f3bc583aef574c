"""Rounding policies: what a market does with quota and devices that make no whole job."""

from typing import Any

import pytest

from walras_contracts.accounts import Rounding
from walras_contracts.wait_reasons import WaitReason

LONG = 10
"""After so many cycles the first job of a queue has waited long."""


def crowded(kit: Any, policy: Rounding, *, crash: bool = False) -> Any:
    """Eight devices, all held by small jobs of a team whose first job in the queue needs eight."""
    bench = kit.bench(crash=crash)
    small = [bench.job(f"s{number}", 1) for number in range(8)]
    bench.step(kit.rounding("a", policy), kit.node("n1", 8), kit.quota("t1", a=(8, 0, 5)), *small)
    for _ in range(LONG):
        bench.step(bench.job("big", 8))
    return bench


def churn(bench: Any, steps: int) -> list[int]:
    """Let a small job end and another one come in every step; return when the big one started."""
    started = []
    for number in range(steps):
        given = [bench.job(f"m{number}", 1)]
        running = [n for n in sorted(bench.leases) if n != "big"]
        if running:
            given += bench.freed(running[0])
        bench.step(*given)
        if "big" in bench.leases:
            started.append(number)
    return started


def test_backfill_passes_the_large_job_over_for_ever(kit: Any) -> None:
    bench = crowded(kit, Rounding.BACKFILL)
    assert churn(bench, 20) == []
    assert bench.figures["a"].unspent_macc == 0


def test_reserve_keeps_what_comes_free_for_the_job_that_waits_long(kit: Any) -> None:
    bench = crowded(kit, Rounding.RESERVE)
    assert churn(bench, 20)[0] == 7, "when the eighth small job has ended"


def test_the_cost_of_keeping_is_told(kit: Any) -> None:
    bench = crowded(kit, Rounding.RESERVE)
    churn(bench, 4)
    figures = bench.figures["a"]
    assert (figures.rounding, figures.unspent_macc, figures.bought_macc) == ("reserve", 4000, 8000)


def test_a_job_that_has_not_waited_long_is_passed_over(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 2),
        kit.quota("t1", a=(2, 0, 5)),
        bench.job("s0", 1),
        bench.job("big", 2),
        bench.job("s1", 1),
    )
    assert sorted(bench.leases) == ["s0", "s1"]


def test_what_the_first_job_can_never_use_is_for_the_others(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.rounding("a", Rounding.RESERVE), kit.node("n1", 8), kit.quota("t1", a=(3, 0, 5)))
    for _ in range(LONG + 1):
        bench.step(bench.job("big", 4))
    bench.step(bench.job("s0", 3))
    assert bench.statuses["s0"].state == "running", "its team never bought enough for the other"


def test_others_have_what_is_left_of_the_quota_beside_the_first_job(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 4),
        kit.quota("t0", a=(2, 0, 5)),
        bench.job("x", 2, team="t0"),
        kit.quota("t1", a=(5, 0, 5)),
    )
    for _ in range(LONG + 1):
        bench.step(bench.job("big", 4))
    bench.step(bench.job("s0", 1))
    assert bench.statuses["s0"].reason == WaitReason.WAITING_FOR_DEVICES, "kept for the first job"
    bench.step(kit.node("n2", 1))
    assert list(bench.leases["s0"]) == ["n2"]
    bench.step(bench.job("s1", 1))
    assert bench.statuses["s1"].reason == WaitReason.WAITING_FOR_QUOTA
    bench.step(*bench.freed("x"))
    assert list(bench.leases["big"]) == ["n1"]


def test_other_teams_cannot_take_what_is_kept(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 4),
        kit.quota("t0", a=(4, 0, 5)),
        *(bench.job(f"x{number}", 1, team="t0") for number in range(4)),
        kit.quota("t9", a=(4, 0, 5)),
    )
    for _ in range(LONG + 1):
        bench.step(bench.job("big", 4, team="t9"))
    for number in range(4):
        bench.step(bench.job(f"y{number}", 1, team="t0"), *bench.freed(f"x{number}"))
    assert list(bench.leases) == ["big"]


def test_one_job_of_a_market_at_a_time_has_devices_kept(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 2),
        kit.node("n2", 2),
        kit.quota("t0", a=(2, 0, 5)),
        bench.job("x0", 1, team="t0"),
        bench.job("x1", 1, team="t0"),
        kit.quota("t1", a=(4, 0, 5)),
        kit.quota("t2", a=(4, 0, 5)),
    )
    bench.step(bench.job("y", 2, team="t2"))
    assert bench.statuses["y"].state == "running"
    for _ in range(LONG + 1):
        bench.step(bench.job("b1", 2, team="t1"), bench.job("b2", 2, team="t2"))
    assert [r.standing for r in bench.state.reservations.values()] == [True]
    assert list(bench.state.reservations) == ["t1/b1"]


def test_a_promotion_does_not_take_the_quota_that_is_kept(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 4),
        kit.quota("t1", a=(0, 1, 5)),
        bench.job("free", 1),
        kit.quota("t2", a=(3, 0, 5)),
        bench.job("y", 3, team="t2"),
    )
    for _ in range(LONG + 1):
        bench.step(kit.quota("t1", a=(2, 1, 5)), bench.job("big", 2, limit=5))
    # The opportunistic job is running and came first; it was promoted before there was a head.
    assert bench.statuses["free"].work_class == "market"
    bench.step(kit.quota("t1", a=(0, 1, 5)))
    bench.step(kit.quota("t1", a=(2, 1, 5)))
    assert bench.statuses["free"].work_class == "opportunistic"


@pytest.mark.parametrize("crash", [False, True])
def test_release_says_whose_demand_is_to_be_cut_once_it_is_stuck(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(kit.rounding("a", Rounding.RELEASE), kit.node("n1", 8), kit.quota("t1", a=(3, 0, 5)))
    told = []
    for _ in range(LONG + 2):
        bench.step(bench.job("s0", 1), bench.job("big", 4))
        told.append(len(bench.figures["a"].stuck))
    assert told == [0] * LONG + [1, 1]
    (head,) = bench.figures["a"].stuck
    assert (head.team, head.job, head.reason) == ("t1", "big", WaitReason.WAITING_FOR_QUOTA)
    assert (head.needed_macc, head.allocated_macc, head.unspent_macc) == (4000, 3000, 2000)


def test_the_youngest_stuck_heads_come_first_and_at_most_three_of_a_pool(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.rounding("a", Rounding.RELEASE), kit.node("n1", 64))
    for number in range(5):
        team = f"t{number}"
        bench.step(kit.quota(team, a=(1, 0, 5)))
        # The order of the names is not that of the ages.
        bench.step(bench.job(f"b{number}", 2, team=team, submitted_minute=number * 2 % 5))
    for _ in range(LONG + 1):
        bench.step()
    assert [head.team for head in bench.figures["a"].stuck] == ["t2", "t4", "t1"]


def test_other_markets_are_rounded_as_before(kit: Any) -> None:
    bench = crowded(kit, Rounding.RESERVE)
    bench.step(
        kit.node("m1", 2, "b"),
        kit.quota("t2", b=(2, 0, 5)),
        bench.job("u", 1, team="t2", types=("b",)),
    )
    for _ in range(LONG + 1):
        bench.step(bench.job("v", 2, team="t2", types=("b",)))
    bench.step(bench.job("w", 1, team="t2", types=("b",)))
    assert bench.statuses["w"].state == "running"


def test_the_next_one_has_devices_kept_where_the_first_starts_for_nothing_elsewhere(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 1),
        kit.node("m1", 1, "b"),
        *(kit.quota(f"t{number}", a=(1, 0, 5)) for number in range(3)),
        bench.job("x", 1, team="t0"),
        bench.job("first", 1, team="t1", types=("a", "b")),
        bench.job("next", 1, team="t2"),
    )
    for _ in range(LONG - 1):
        bench.step()
    assert bench.state.reservations == {}
    bench.step(kit.quota("t1", a=(1, 0, 5), b=(0, 1, 5)))
    assert bench.states()["first"] == "running"
    assert list(bench.state.reservations) == ["t2/next"]


def test_what_is_kept_is_for_all_again_once_the_market_does_not_keep_any_more(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RESERVE),
        kit.node("n1", 2),
        kit.quota("t0", a=(2, 0, 5)),
        bench.job("x0", 1, team="t0"),
        bench.job("x1", 1, team="t0"),
        kit.quota("t1", a=(2, 0, 5)),
        bench.job("big", 2),
    )
    for _ in range(LONG + 1):
        bench.step()
    bench.step(*bench.freed("x0"), bench.job("y", 1, team="t0"))
    assert list(bench.state.reservations) == ["t1/big"]
    assert bench.states()["y"] == "pending"
    bench.step(kit.rounding("a", Rounding.BACKFILL, version=2))
    assert bench.state.reservations == {}
    assert bench.states()["y"] == "running"
