"""Rounding ``release``: which first jobs of queues placement tells clearing (decision 20)."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.accounts import Rounding
from walras_contracts.placing import STUCK_MAX, STUCK_TEAMS_OF_A_POOL, StuckHead
from walras_placement.stuck_heads import chosen
from walras_placement.turns import TURN_AFTER_CYCLES, TURN_CYCLES, has_turn

STUCK_AFTER = 10


def overtaken(kit: Any, *, cycle_every: int = 1, crash: bool = False) -> Any:
    """Four devices of a team, held by small jobs; the gang at its head needs all of them."""
    bench = kit.bench(cycle_every=cycle_every, crash=crash)
    small = [bench.job(f"s{number}", 1) for number in range(4)]
    policy = kit.rounding("a", Rounding.RELEASE)
    bench.step(policy, kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)), *small)
    bench.step(bench.job("gang", 4), bench.job("behind", 1))
    return bench


def stuck(bench: Any) -> list[tuple[str, int, bool]]:
    return [(h.job, h.waited_cycles, h.has_turn) for h in bench.figures["a"].stuck]


@pytest.mark.parametrize("cycle_every", [1, 3])
@pytest.mark.parametrize("crash", [False, True])
def test_a_first_job_is_told_though_its_teams_quota_is_spent_and_has_its_turn_in_the_end(
    kit: Any, cycle_every: int, crash: bool
) -> None:
    bench = overtaken(kit, cycle_every=cycle_every, crash=crash)
    told = []
    for _ in range(TURN_AFTER_CYCLES + 3):
        for _ in range(cycle_every):
            bench.step()
        told += stuck(bench)
        assert bench.figures["a"].unspent_macc == 0
    waits = [waited for _, waited, _ in told]
    assert waits == list(range(STUCK_AFTER, STUCK_AFTER + len(told))), "told without a break"
    assert next(waited for _, waited, turn in told if turn) == TURN_AFTER_CYCLES


def test_a_job_that_nothing_can_overtake_needs_no_turn(kit: Any) -> None:
    bench = overtaken(kit)
    bench.step(bench.job("behind", 4))
    for _ in range(TURN_AFTER_CYCLES + 1):
        bench.step()
    assert [(job, turn) for job, _, turn in stuck(bench)] == [("gang", False)]


def test_a_job_that_starts_when_a_single_other_one_ends_needs_no_turn(kit: Any) -> None:
    bench = kit.bench()
    policy = kit.rounding("a", Rounding.RELEASE)
    bench.step(policy, kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)))
    bench.step(bench.job("large", 3), bench.job("s", 1))
    bench.step(bench.job("next", 3), bench.job("behind", 1))
    for _ in range(TURN_AFTER_CYCLES + 1):
        bench.step()
    assert [(job, turn) for job, _, turn in stuck(bench)] == [("next", False)]
    bench.step(*bench.freed("large"))
    assert bench.states()["next"] == "running"


def test_a_job_has_its_turn_though_those_that_overtake_it_never_wait(kit: Any) -> None:
    """Each starts in the step in which it comes, in what is left of the quota."""
    bench = kit.bench()
    policy = kit.rounding("a", Rounding.RELEASE)
    bench.step(policy, kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)))
    bench.step(*(bench.job(f"s{number}", 1) for number in range(3)))
    bench.step(bench.job("gang", 4))
    for number in range(TURN_AFTER_CYCLES):
        ends = f"s{number}"
        bench.step(*bench.freed(ends), bench.job(f"s{number + 3}", 1))
        assert bench.states()[f"s{number + 3}"] == "running"
        assert bench.figures["a"].unspent_macc == 1000
    assert stuck(bench) == [("gang", TURN_AFTER_CYCLES, True)]


@pytest.mark.parametrize("cycle_every", [1, 3])
@pytest.mark.parametrize("crash", [False, True])
def test_a_turn_that_began_lasts_though_nothing_could_overtake_the_job_for_a_while(
    kit: Any, cycle_every: int, crash: bool
) -> None:
    bench = overtaken(kit, cycle_every=cycle_every, crash=crash)
    while not any(turn for *_, turn in stuck(bench)):
        bench.step()
    bench.step(bench.job("behind", 1, cancelled=True), *bench.freed("s0"))
    for _ in range(2 * cycle_every):
        bench.step()
    assert [(job, turn) for job, _, turn in stuck(bench)] == [("gang", True)]


@pytest.mark.parametrize("crash", [False, True])
def test_in_the_turn_of_a_job_nothing_starts_behind_it_until_it_is_over(
    kit: Any, crash: bool
) -> None:
    bench = overtaken(kit, crash=crash)
    bench.step(bench.job("behind", 1), bench.job("more", 1))
    while not any(turn for *_, turn in stuck(bench)):
        bench.step()
    bench.step(*bench.freed("s0"), kit.quota("t1", a=(4, 1, 5)))
    assert bench.figures["a"].unspent_macc == 1000
    assert bench.states()["behind"] == "pending"
    for _ in range(TURN_CYCLES - 2):
        bench.step()
    assert [turn for *_, turn in stuck(bench)] == [True]
    assert bench.states()["behind"] == "pending"
    bench.step()
    assert bench.states()["behind"] == "running", "in the pause, though nothing else happened"


def test_a_job_in_its_turn_that_the_price_rules_out_keeps_nobody_waiting(kit: Any) -> None:
    bench = overtaken(kit)
    bench.step(bench.job("gang", 4, limit=5))
    while not any(turn for *_, turn in stuck(bench)):
        bench.step()
    gang = bench.state.jobs["t1/gang"]
    assert gang.turn_since_step == gang.pending_since_step + TURN_AFTER_CYCLES
    bench.step(kit.quota("t1", a=(4, 0, 6)), *bench.freed("s0"))
    assert bench.states()["behind"] == "running"
    assert gang.turn_since_step is None, "clearing was not told, either"


def test_a_job_that_fits_nowhere_is_not_the_first(kit: Any) -> None:
    bench = overtaken(kit)
    bench.step(bench.job("gang", 5))
    for _ in range(STUCK_AFTER + 1):
        bench.step()
    assert [job for job, *_ in stuck(bench)] == ["behind"]


def test_a_first_job_whose_limit_does_not_cover_the_price_is_passed_over(kit: Any) -> None:
    bench = overtaken(kit)
    bench.step(bench.job("gang", 4, limit=4))
    for _ in range(STUCK_AFTER + 1):
        bench.step()
    assert [job for job, *_ in stuck(bench)] == ["behind"]


@pytest.mark.parametrize("policy", [Rounding.BACKFILL, Rounding.RESERVE])
def test_other_markets_tell_nothing(kit: Any, policy: Rounding) -> None:
    bench = overtaken(kit)
    bench.step(kit.rounding("a", policy, version=2))
    for _ in range(TURN_AFTER_CYCLES + 1):
        bench.step()
    assert bench.figures["a"].rounding is policy
    assert stuck(bench) == []


def test_a_turn_ends_and_comes_again() -> None:
    turns = [has_turn(cycles) for cycles in range(TURN_AFTER_CYCLES + 3 * TURN_CYCLES)]
    borders = [n for n in range(1, len(turns)) if turns[n] != turns[n - 1]]
    assert borders == [TURN_AFTER_CYCLES + n * TURN_CYCLES for n in range(3)]
    assert not turns[0]


def head(number: int, pool: int, since_ms: int, has_its_turn: bool) -> StuckHead:
    return StuckHead(
        pool=f"p{pool}",
        team=f"t{number}",
        job="j",
        reason="",
        needed_macc=1,
        allocated_macc=0,
        unspent_macc=0,
        pending_since_ms=since_ms,
        waited_cycles=STUCK_AFTER,
        has_turn=has_its_turn,
    )


ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=150)


@given(rows=ROWS)
def test_of_each_pool_the_oldest_turns_and_the_youngest_others_are_told(
    rows: list[tuple[int, int, bool]],
) -> None:
    heads = [head(number, *row) for number, row in enumerate(rows)]
    told = chosen(heads)
    assert list(told) == sorted(told, key=lambda h: (-h.pending_since_ms, h.team))
    assert len(told) <= STUCK_MAX
    for flag in (True, False):
        mine = [h for h in told if h.has_turn is flag]
        of_pool = Counter(h.pool for h in mine)
        assert max(of_pool.values(), default=0) <= STUCK_TEAMS_OF_A_POOL
        for other in heads:
            if other in told or other.has_turn is not flag or len(told) == STUCK_MAX:
                continue
            peers = [h for h in mine if h.pool == other.pool]
            assert len(peers) == STUCK_TEAMS_OF_A_POOL
            ages = [h.pending_since_ms for h in peers]
            if flag:
                assert other.pending_since_ms >= max(ages), "the oldest have their turn"
            else:
                assert other.pending_since_ms <= min(ages), "the youngest are cut"
