"""The bidder's rules one by one (design §4 Bids 1-6), on the input of one cycle.

They are stated on the plain specification; `test_columns_decide_the_same` carries them over.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_clearing import Job
from walras_clearing_service.job_hash import job_hash
from walras_clearing_service.model import (
    BidderParameters,
    LastClearing,
    MarketInput,
    PoolInput,
)
from walras_clearing_service.reference_bidder import (
    is_left_out,
    largest_affordable_macc,
    plan_bids,
    retained_limit,
    split_cap,
    team_cap,
)
from walras_clearing_service.reference_model import JobView, PlainCycleInput, TeamInput
from walras_contracts.accounts import Gate, IdleOwnSupply, Margin

PARAMETERS = BidderParameters(120, 100_000, 62_500, 100_000, 10)
ALWAYS = replace(PARAMETERS, move_share_ppm=1_000_000)
NOW_MS = 1_700_000_000_000
POOL = PoolInput("pool", 10_000_000, 10, 2_000_000)


def market(name: str, shared: int = 10_000, own: dict[str, int] | None = None) -> MarketInput:
    policies = (Gate.ON, Margin.PRO_RATA, IdleOwnSupply.LEND, 0)
    return MarketInput(name, shared, own or {}, *policies)


def job(name: str, size: int = 1000, team: str = "team", **changes: Any) -> JobView:
    limit = changes.get("limit_micro")
    view = JobView(
        key=f"{team}/{name}",
        team=team,
        types=("a", "b"),
        size_macc=size,
        limit_micro=limit,
        gang=False,
        minimum_run_ms=0,
        position=0,
        running_in=None,
        draining=False,
        started_ms=None,
        refused=False,
        assigned=None,
        unplaceable_since=None,
        offer=Job(name, size, limit),
    )
    return replace(view, **changes)


def team(*jobs: JobView, name: str = "team", **changes: Any) -> TeamInput:
    return replace(TeamInput(name, "pool", 1_000_000, 2_000_000, 0, False, jobs), **changes)


def last(price: int | None, unsold: int = 0, **changes: Any) -> LastClearing:
    return replace(LastClearing(0, price, {"pool": price}, unsold, {}), **changes)


def cycle_input(*teams: TeamInput, **changes: Any) -> PlainCycleInput:
    base = PlainCycleInput(
        1,
        1,
        NOW_MS,
        -1,
        PARAMETERS,
        (POOL,),
        teams,
        (market("a"), market("b")),
        {},
    )
    return replace(base, **changes)


def offered(plan: Any) -> dict[str, list[str]]:
    """Names of the jobs that are demand, by market."""
    return {m: [j.job for bid in bids for j in bid.jobs] for m, bids in plan.bids.items() if bids}


@settings(deadline=None)
@given(
    income=st.integers(0, 10**12),
    leverage=st.integers(0, 10**7),
    wallet=st.integers(-(10**15), 10**15),
    minutes=st.integers(1, 10_080),
)
def test_a_cap_is_the_lower_of_leverage_and_income_with_net_burn(
    income: int, leverage: int, wallet: int, minutes: int
) -> None:
    parameters = replace(PARAMETERS, minimum_affordable_minutes=minutes)
    means = team(income_micro_per_hour=income, leverage_ppm=leverage, wallet_micro=wallet)
    exact = min(Fraction(leverage * income, 10**6), income + Fraction(wallet * 60, minutes))
    assert team_cap(means, parameters) == max(0, exact.__floor__())
    assert team_cap(replace(means, exhausted=True), parameters) == 0


@settings(deadline=None)
@given(
    cap=st.integers(0, 10**15),
    wanted=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**12), max_size=4),
)
def test_the_whole_cap_is_bid_in_proportion_to_demand(cap: int, wanted: dict[str, int]) -> None:
    bids = split_cap(cap, wanted)
    total = sum(wanted.values())
    assert bids.keys() == wanted.keys()
    assert sum(bids.values()) <= cap
    assert total == 0 or sum(bids.values()) > cap - len(wanted)
    for name, macc in wanted.items():
        assert bids[name] == (cap * macc // total if total else 0)


def test_without_a_last_price_all_demand_counts() -> None:
    plan = plan_bids(cycle_input(team(job("x"), job("y", 3000, types=("b",)))))
    bids = {m: bid[0].bid_micro_per_hour for m, bid in plan.bids.items()}
    assert bids == {"a": 250_000, "b": 750_000}


def test_jobs_with_a_limit_below_half_of_the_last_price_draw_no_bid() -> None:
    jobs = (job("low", limit_micro=49, types=("a",)), job("high", limit_micro=50, types=("b",)))
    plan = plan_bids(cycle_input(team(*jobs), last={"a": last(100), "b": last(100)}))
    bids = {m: bid[0].bid_micro_per_hour for m, bid in plan.bids.items()}
    assert bids == {"a": 0, "b": 1_000_000}


def test_where_all_limits_are_low_all_of_the_demand_draws_bids() -> None:
    jobs = (job("x", limit_micro=1, types=("a",)), job("y", limit_micro=1, types=("b",)))
    plan = plan_bids(cycle_input(team(*jobs), last={"a": last(100), "b": last(100)}))
    assert [bids[0].bid_micro_per_hour for bids in plan.bids.values()] == [500_000, 500_000]


def test_opportunistic_jobs_are_offered_but_draw_no_bid() -> None:
    plan = plan_bids(cycle_input(team(job("free", limit_micro=0), job("paid", types=("b",)))))
    assert offered(plan) == {"a": ["free"], "b": ["paid"]}
    assert [bids[0].bid_micro_per_hour for bids in plan.bids.values()] == [0, 1_000_000]


def test_a_job_starts_in_its_first_type_that_is_sold() -> None:
    jobs = (job("x"), job("y", types=("unknown", "b", "a")))
    plan = plan_bids(cycle_input(team(*jobs)))
    assert offered(plan) == {"a": ["x"], "b": ["y"]}
    assert dict(plan.assigned) == {"team/y": "b"}


@pytest.mark.parametrize(("price", "moves"), [(110, False), (111, False), (112, True)])
def test_a_job_moves_only_for_a_gap_above_the_smallest(price: int, moves: bool) -> None:
    # 1 - 100/111 = 9.9 %, 1 - 100/112 = 10.7 %
    jobs = tuple(job(f"j{n}") for n in range(200))
    state = {"a": last(price), "b": last(100)}
    plan = plan_bids(cycle_input(team(*jobs), last=state, parameters=ALWAYS))
    assert bool(plan.assigned) == moves


@settings(deadline=None, max_examples=30)
@given(
    price=st.integers(2, 10**9),
    new=st.integers(1, 10**9),
    share=st.integers(0, 1_000_000),
    cycle=st.integers(1, 1000),
)
def test_exactly_the_jobs_whose_hash_is_below_gap_times_share_move(
    price: int, new: int, share: int, cycle: int
) -> None:
    jobs = tuple(job(f"j{n}") for n in range(40))
    parameters = replace(PARAMETERS, move_share_ppm=share)
    state = {"a": last(price), "b": last(new)}
    plan = plan_bids(cycle_input(team(*jobs), last=state, parameters=parameters, cycle=cycle))
    gap = 1 - Fraction(new, price)
    expected = {
        view.key
        for view in jobs
        if gap > Fraction(1, 10)
        and Fraction(job_hash(view.key, cycle), 2**64) < gap * Fraction(share, 10**6)
    }
    assert set(plan.assigned) == expected
    assert all(target == "b" for target in plan.assigned.values())


def test_moves_into_a_free_market_never_exceed_half_of_what_it_left_unsold() -> None:
    jobs = tuple(job(f"j{n}") for n in range(50))
    state = {"a": last(100), "b": last(0, unsold=9000)}
    plan = plan_bids(cycle_input(team(*jobs), last=state, parameters=ALWAYS))
    assert len(plan.assigned) == 4


def test_a_pool_whose_own_supply_came_free_moves_into_half_of_it() -> None:
    jobs = tuple(job(f"j{n}") for n in range(50))
    there = last(80, pool_prices_micro={"pool": 0}, idle_own_macc={"pool": 6000}, unsold_macc=0)
    plan = plan_bids(cycle_input(team(*jobs), last={"a": last(100), "b": there}, parameters=ALWAYS))
    assert len(plan.assigned) == 3


def test_of_several_free_markets_the_emptiest_is_taken() -> None:
    jobs = tuple(job(f"j{n}", types=("a", "b", "c")) for n in range(50))
    state = {"a": last(100), "b": last(0, unsold=1000), "c": last(0, unsold=8000)}
    markets = (market("a"), market("b"), market("c"))
    plan = plan_bids(cycle_input(team(*jobs), last=state, parameters=ALWAYS, markets=markets))
    assert list(plan.assigned.values()) == ["c"] * 4


def test_a_market_where_the_pool_can_buy_nothing_is_left() -> None:
    jobs = tuple(job(f"j{n}") for n in range(10))
    plan = plan_bids(
        cycle_input(team(*jobs), last={"a": last(None), "b": last(100)}, parameters=ALWAYS)
    )
    assert len(plan.assigned) == 10


def test_running_jobs_stay_where_they_run() -> None:
    jobs = (job("x", running_in="b"), job("y", running_in="b", draining=True))
    state = {"a": last(0, unsold=10_000), "b": last(10**6)}
    plan = plan_bids(cycle_input(team(*jobs), last=state, parameters=ALWAYS))
    assert offered(plan) == {"b": ["x", "y"]}
    assert dict(plan.assigned) == {"team/x": "b", "team/y": "b"}


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 110),
        ({"draining": True}, 100),
        ({"started_ms": NOW_MS - 60_000}, 100),
        ({"running_in": None, "started_ms": None}, 100),
    ],
    ids=["within-minimum-run", "draining", "run-long-enough", "pending"],
)
def test_only_a_running_job_within_its_minimum_run_is_retained(
    changes: dict[str, Any], limit: int
) -> None:
    base = job(
        "x", limit_micro=100, running_in="a", started_ms=NOW_MS - 59_999, minimum_run_ms=60_000
    )
    plan = plan_bids(cycle_input(team(replace(base, **changes))))
    assert plan.bids["a"][0].jobs[0].limit_micro == limit


def test_a_retained_limit_stays_within_the_range_of_limits() -> None:
    assert retained_limit(10**12, 100_000) == 10**12
    assert retained_limit(105, 100_000) == 115


def test_bids_of_a_pool_are_scaled_to_its_cap() -> None:
    small = replace(POOL, weight_micro_per_hour=1_000_000, leverage_ppm=1_000_000)
    teams = [
        team(job("x", team=f"t{n}"), job("y", team=f"t{n}", types=("b",)), name=f"t{n}")
        for n in range(3)
    ]
    plan = plan_bids(cycle_input(*teams, pools=(small,)))
    bids = [bid.bid_micro_per_hour for bids in plan.bids.values() for bid in bids]
    assert bids == [166_666] * 6


@settings(deadline=None)
@given(size=st.integers(1, 10**7), price=st.integers(1, 10**8), income=st.integers(0, 10**10))
def test_a_gang_is_affordable_while_leverage_times_income_pays_its_price(
    size: int, price: int, income: int
) -> None:
    means = team(income_micro_per_hour=income)
    affordable = Fraction(size * price, 1000) <= 2 * income
    assert (size <= largest_affordable_macc(means, price)) == affordable


def test_an_unaffordable_gang_is_no_demand() -> None:
    jobs = (job("gang", 2001, gang=True), job("fits", 2000, gang=True), job("loose", 2001))
    plan = plan_bids(cycle_input(team(*jobs), last={"a": last(1_000_000)}))
    assert offered(plan) == {"a": ["fits", "loose"]}


def test_a_team_without_funds_still_offers_its_jobs_at_no_bid() -> None:
    poor = team(job("x", gang=True), income_micro_per_hour=0)
    plan = plan_bids(cycle_input(poor, last={"a": last(1_000_000)}))
    assert offered(plan) == {"a": ["x"]}
    assert plan.bids["a"][0].bid_micro_per_hour == 0


def test_a_job_that_placement_refuses_is_dropped_after_ten_cycles_and_retried_every_ten() -> None:
    demand = []
    since = None
    for cycle in range(100, 145):
        view = job("nowhere", types=("a",), refused=True, unplaceable_since=since)
        plan = plan_bids(cycle_input(team(view), cycle=cycle))
        since = plan.unplaceable.get(view.key, since)
        if offered(plan):
            demand.append(cycle - 100)
    assert since == 100
    assert demand == [*range(10), 20, 30, 40]


def test_a_pending_job_larger_than_its_market_is_never_offered_a_running_one_is() -> None:
    huge = job("huge", 10_001, types=("a",))
    since = None
    for cycle in range(100, 125):
        plan = plan_bids(cycle_input(team(replace(huge, unplaceable_since=since)), cycle=cycle))
        since = plan.unplaceable.get(huge.key, since)
        assert offered(plan) == {}
        assert plan.bids["a"] == ()
    assert since == 100
    # Supply was taken back from under it: what holds devices stays demand.
    assert offered(plan_bids(cycle_input(team(replace(huge, running_in="a"))))) == {"a": ["huge"]}
    # There is supply again.
    markets = (market("a", 10_001), market("b"))
    back = plan_bids(cycle_input(team(replace(huge, unplaceable_since=since)), markets=markets))
    assert offered(back) == {"a": ["huge"]}


def test_a_job_that_finds_a_place_again_is_no_longer_marked() -> None:
    plan = plan_bids(cycle_input(team(job("x", unplaceable_since=3)), cycle=40))
    assert dict(plan.unplaceable) == {"team/x": None}
    assert offered(plan) == {"a": ["x"]}


def test_a_job_too_big_for_its_first_type_goes_to_the_next_that_holds_it() -> None:
    markets = (market("a", 1000), market("b", 8000))
    plan = plan_bids(cycle_input(team(job("x", 4000)), markets=markets))
    assert offered(plan) == {"b": ["x"]}


@pytest.mark.parametrize("after", [0, 1, 10])
def test_retries_come_once_in_a_period(after: int) -> None:
    period = max(1, after)
    left_out = [is_left_out(0, cycle, after) for cycle in range(5 * period + 1)]
    assert left_out[:period] == [False] * period
    assert left_out[period]
    assert left_out[2 * period] is False


def test_demand_beyond_the_range_of_a_market_waits() -> None:
    jobs = tuple(job(f"j{n}", 4 * 10**14) for n in range(3))
    plan = plan_bids(cycle_input(team(*jobs), markets=(market("a", 10**15), market("b", 0))))
    assert offered(plan) == {"a": ["j0", "j1"]}
    assert plan.bids["a"][0].demand_macc == 8 * 10**14


@pytest.mark.parametrize("size", [10**15, 10**15 - 1000])
def test_a_job_of_all_that_can_be_counted_evicts_nobody(size: int) -> None:
    unfunded = team(job("giant", size, team="a-first"), name="a-first", income_micro_per_hour=0)
    paying = team(job("runs", team="b", running_in="a"), job("waits", team="b"), name="b")
    plan = plan_bids(cycle_input(unfunded, paying))
    assert offered(plan) == {"a": ["runs", "waits"]}
    assert plan.bids["a"][0].bid_micro_per_hour == 1_000_000


def test_where_a_market_cannot_take_all_jobs_those_that_hold_devices_go_first() -> None:
    big = 4 * 10**14
    first = team(*(job(f"p{n}", big, team="a-first") for n in range(2)), name="a-first")
    mixed = (job("waits", 1000, team="b"), job("runs", big, team="b", running_in="a"))
    second = team(*mixed, job("more", 1000, team="b"), name="b")
    plan = plan_bids(cycle_input(first, second, markets=(market("a", 10**15), market("b", 0))))
    # In queue order of the team, whatever was taken first.
    assert offered(plan) == {"a": ["p0", "waits", "runs", "more"]}
    assert [bid.demand_macc for bid in plan.bids["a"]] == [big, big + 2000]
