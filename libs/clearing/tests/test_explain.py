"""An explanation says what the auction did to one job, and its thresholds are exact."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_clearing import ClearingInputError, Job, Market, Pool, Team, clear, clear_reference
from walras_clearing.explain import explain, locate, team_of_job
from walras_clearing.explanation import Explanation, JobState, ShortOf, Threshold
from walras_clearing.queue_share import ahead_macc, highest_price, share_of_job, takes_part
from walras_clearing.testing import COARSE, FINE, Shape, draw_market
from walras_clearing.thresholds import least_holding
from walras_clearing.variants import Case

RUNS = settings(deadline=None, max_examples=60)


@st.composite
def cases(draw: st.DrawFn, shape: Shape | None = None) -> tuple[Market, str, str]:
    """A market with at least one job, and one of its jobs."""
    market = draw_market(lambda low, high: draw(st.integers(low, high)), shape)
    team = Team("asks", market.pools[0].pool, draw(st.integers(0, 4)), (Job("asked", 300, 2),))
    market = replace(market, teams=(*market.teams, team))
    owner = draw(st.sampled_from([team for team in market.teams if team.jobs]))
    return market, owner.team, draw(st.sampled_from(owner.jobs)).job


def seeded_case(seed: int, shape: Shape) -> tuple[Market, str, str] | None:
    chance = random.Random(seed)
    market = draw_market(chance.randint, shape)
    queued = [(team.team, job.job) for team in market.teams for job in team.jobs]
    return (market, *chance.choice(queued)) if queued else None


def changed(market: Market, team: str, job: str, what: str, value: int) -> Market:
    """The market with another bid of a team, or another limit of its job."""

    def with_limit(queued: Job) -> Job:
        return replace(queued, limit_micro=value) if queued.job == job else queued

    def with_value(one: Team) -> Team:
        if what == "bid":
            return replace(one, bid_micro_per_hour=value)
        return replace(one, jobs=tuple(map(with_limit, one.jobs)))

    teams = (with_value(one) if one.team == team else one for one in market.teams)
    return replace(market, teams=tuple(teams))


def runs(market: Market, team: str, job: str) -> bool:
    """Whether a job runs, said as plainly as the definition of a queue's quota allows."""
    result = clear(market)
    owner = next(one for one in market.teams if one.team == team)
    price, left = result.pools[owner.pool].price_micro, result.teams[team].allocated_macc
    if price is None or owner.bid_micro_per_hour == 0:
        return False
    for queued in owner.jobs:
        limit = queued.limit_micro
        if limit is not None and (limit == 0 or limit < price):
            continue
        left -= queued.size_macc
        if queued.job == job:
            return left >= 0
    return False


def faults(market: Market, explanation: Explanation) -> list[str]:
    """What is not exact about the thresholds of an explanation."""
    team, job = explanation.team, explanation.job
    found = []
    for name, threshold in (("limit", explanation.least_limit), ("bid", explanation.least_bid)):
        if threshold is None:
            continue
        value = threshold.value_micro
        there = changed(market, team, job, name, value)
        below = changed(market, team, job, name, value - 1)
        result = clear(there)
        prices = (result.pools[explanation.pool].price_micro, result.reference_price_micro)
        if not runs(there, team, job):
            found.append(f"does not run at the {name}")
        if runs(below, team, job):
            found.append(f"runs below the {name}")
        if prices != (threshold.pool_price_micro, threshold.reference_price_micro):
            found.append(f"other prices at the {name}")
    return found


@RUNS
@given(cases())
def test_at_a_threshold_the_job_runs_and_one_below_it_does_not(
    case: tuple[Market, str, str],
) -> None:
    assert faults(case[0], explain(*case)) == []


@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_at_the_thresholds_of_seeded_markets_the_job_runs_and_one_below_it_does_not(
    first_seed: int,
) -> None:
    found = 0
    for seed in range(first_seed, first_seed + 100):
        for shape in (COARSE, FINE):
            case = seeded_case(seed, shape)
            if case is not None:
                explanation = explain(*case)
                found += explanation.least_limit is not None
                assert faults(case[0], explanation) == [], f"seed {seed}"
    assert found > 50


def test_the_check_of_thresholds_sees_one_that_is_off_by_one() -> None:
    market, team, job = a_market(), "vision", "train"
    explanation = explain(market, team, job)
    limit = explanation.least_limit
    assert limit is not None
    for step, fault in ((1, "runs below the limit"), (-1, "does not run at the limit")):
        wrong = replace(
            explanation, least_limit=replace(limit, value_micro=limit.value_micro + step)
        )
        assert fault in faults(market, wrong)
    wrong = replace(explanation, least_limit=replace(limit, pool_price_micro=1))
    assert faults(market, wrong) == ["other prices at the limit"]


def test_no_lower_value_lets_it_run_where_prices_are_fine() -> None:
    """Sampled from the whole range below; coarse ticks may hold surprises, as documented."""
    checked = 0
    for seed in range(300):
        case = seeded_case(seed, FINE)
        if case is None:
            continue
        explanation, chance = explain(*case), random.Random(seed)
        for name, found in (("limit", explanation.least_limit), ("bid", explanation.least_bid)):
            if found is not None and (found.pool_price_micro or 0) < 100_000:
                continue
            highest = 10**12 if found is None else found.value_micro - 1
            for _ in range(4):
                value = 1 + int(highest ** chance.random())
                if value <= highest:
                    checked += 1
                    assert not runs(changed(*case, name, value), *case[1:]), f"seed {seed}"
    assert checked > 500


@RUNS
@given(cases(COARSE))
def test_the_shares_of_a_queue_use_up_the_quota_and_the_leftovers(
    case: tuple[Market, str, str],
) -> None:
    market = case[0]
    result = clear_reference(market)
    for team in market.teams:
        quota, price = result.teams[team.team], result.pools[team.pool].price_micro
        shares = [share_of_job(team, place, price, quota) for place in range(len(team.jobs))]
        assert sum(share.bought_macc for share in shares) == quota.allocated_macc
        assert sum(share.opportunistic_macc for share in shares) == quota.opportunistic_macc
        for job, share in zip(team.jobs, shares, strict=True):
            assert share.bought_macc + share.opportunistic_macc <= job.size_macc
            assert share.runs == runs(market, team.team, job.job)


@RUNS
@given(cases(COARSE))
def test_the_highest_price_is_the_last_one_that_limit_and_bid_reach(
    case: tuple[Market, str, str],
) -> None:
    for team in case[0].teams:
        for place, job in enumerate(team.jobs):
            reached = [
                price
                for price in range(1, 6_000)
                if takes_part(team, job, price)
                and 1000 * team.bid_micro_per_hour // price
                >= ahead_macc(team, place, price) + job.size_macc
            ]
            assert min(highest_price(team, place), 5_999) == max(reached, default=0)


@RUNS
@given(cases())
def test_what_runs_is_short_of_nothing_and_what_does_not_is_short_of_something(
    case: tuple[Market, str, str],
) -> None:
    explanation = explain(*case)
    codes = [short.short_of for short in explanation.shortages]
    assert (explanation.state is JobState.IN) == (codes == [])
    assert codes == [code for code in ShortOf if code in codes], "each once, by precedence"
    limit, price = explanation.limit_micro, explanation.pool_price_micro or 0
    assert (ShortOf.PRICE in codes) == (limit is not None and limit < max(1, price))
    for short in explanation.shortages:
        assert 0 <= short.amount_macc <= explanation.size_macc
        assert (short.amount_micro is None) == (short.short_of is ShortOf.SUPPLY)
        if short.short_of in (ShortOf.PRICE, ShortOf.BUDGET):
            assert short.amount_micro is not None
            assert short.amount_micro > 0
    result, pool = clear(case[0]), explanation.pool
    assert explanation.pool_price_micro == result.pools[pool].price_micro
    assert explanation.team_allocated_macc == result.teams[explanation.team].allocated_macc
    assert explanation == explain(*case)


@RUNS
@given(cases())
def test_the_missing_money_covers_the_job_at_this_price_and_less_does_not(
    case: tuple[Market, str, str],
) -> None:
    market, team, _ = case
    explanation = explain(*case)
    missing = [s.amount_micro for s in explanation.shortages if s.short_of is ShortOf.BUDGET]
    if not missing or not explanation.pool_price_micro:
        return
    owner = next(one for one in market.teams if one.team == team)
    rich = replace(owner, bid_micro_per_hour=1)
    end = ahead_macc(rich, explanation.queue_position, explanation.pool_price_micro)
    end += explanation.size_macc
    bid = owner.bid_micro_per_hour + (missing[0] or 0)
    assert 1000 * bid // explanation.pool_price_micro >= end
    assert bid == 1 or 1000 * (bid - 1) // explanation.pool_price_micro < end


@RUNS
@given(cases(), st.integers(0, 20), st.integers(0, 20))
def test_what_a_search_tries_is_put_back(
    case: tuple[Market, str, str], limit: int, bid: int
) -> None:
    tried = Case(case[0], *locate(*case))
    before = tried.now()
    outcomes = (tried.with_limit(limit), tried.with_bid(bid), tried.without_reserve())
    assert tried.now() == before
    assert outcomes == (tried.with_limit(limit), tried.with_bid(bid), tried.without_reserve())


@given(st.integers(1, 60), st.integers(0, 60), st.integers(-5, 70), st.integers(1, 70))
def test_the_least_value_is_found_wherever_the_search_starts(
    first: int, width: int, start: int, answer: int
) -> None:
    last = first + width
    asked: list[int] = []

    def holds(value: int) -> bool:
        asked.append(value)
        return value >= answer

    expected = max(first, answer) if answer <= last else None
    assert least_holding(first, last, holds, start) == expected
    assert all(first <= value <= last for value in asked)


def test_an_empty_range_has_no_least_value() -> None:
    assert least_holding(2, 1, lambda value: value > 0, 1) is None


def a_market() -> Market:
    """Eight shared accelerators; `vision` queues before `render`, `speech` outbids their limits."""
    return Market(
        shared_supply_macc=8_000,
        pools=(Pool("research", 4_000), Pool("products", 0)),
        teams=(
            Team(
                "vision",
                "research",
                6_000_000,
                (Job("train", 6_000, 500_000), Job("render", 4_000, 2_000_000), Job("idle", 50, 0)),
            ),
            Team("speech", "products", 9_000_000, (Job("tune", 16_000, None),)),
        ),
    )


def test_a_job_whose_limit_is_too_low_is_told_by_how_much() -> None:
    rich = Team("rich", "p", 1_000_000, (Job("all", 2_000, None),))
    poor = Team("poor", "p", 1_000_000, (Job("some", 500, 300),))
    low = explain(Market(1_000, (Pool("p", 0),), (rich, poor)), "poor", "some")
    assert (low.state, low.pool_price_micro, low.highest_price_micro) == (
        JobState.OUT,
        999_001,
        300,
    )
    (short,) = low.shortages
    assert (short.short_of, short.amount_micro, short.amount_macc) == (
        ShortOf.PRICE,
        998_701,
        500,
    )
    assert "short of price: its limit of 300 lies 998,701 µcr too low" in low.to_lines()
    assert low.least_limit == Threshold(1_996_008, 1_996_008, 1_996_008)
    assert low.least_bid is None, "money does not lift a limit"


def test_supply_is_short_at_a_tie_and_the_last_of_the_queue_is_cut() -> None:
    teams = tuple(
        Team(name, "p", 10**9, (Job("first", 600, 50), Job("last", 400, 50))) for name in "ab"
    )
    market = Market(1_000, (Pool("p", 0),), teams)
    first, last = explain(market, "a", "first"), explain(market, "a", "last")
    assert (first.state, first.bought_macc) == (JobState.PART, 500)
    assert (last.state, last.bought_macc, last.ahead_macc) == (JobState.OUT, 0, 600)
    assert [(s.short_of, s.amount_macc) for s in first.shortages] == [(ShortOf.SUPPLY, 100)]
    assert last.least_bid is None, "money does not lift a limit"


def test_a_budget_that_ends_before_the_job_is_told_with_the_money_that_is_missing() -> None:
    queue = (Job("first", 3_000, None), Job("second", 3_000, None))
    market = Market(10_000, (Pool("p", 0),), (Team("t", "p", 400, queue),), 100)
    second = explain(market, "t", "second")
    assert (second.state, second.bought_macc, second.ahead_macc) == (JobState.PART, 1_000, 3_000)
    assert second.highest_price_micro == 66
    budget, reserve = second.shortages
    assert (budget.short_of, budget.amount_micro, budget.amount_macc) == (
        ShortOf.BUDGET,
        200,
        2_000,
    )
    assert (reserve.short_of, reserve.amount_micro, reserve.amount_macc) == (
        ShortOf.RESERVE,
        100,
        2_000,
    )
    assert second.least_bid == Threshold(600, 100, 100)
    assert second.least_limit is None


def test_money_that_ends_before_a_job_misses_no_more_than_the_job() -> None:
    queue = (Job("first", 3_000, None), Job("second", 3_000, None), Job("third", 1_000, None))
    market = Market(10_000, (Pool("p", 0),), (Team("t", "p", 400, queue),), 100)
    budget, reserve = explain(market, "t", "third").shortages
    assert (budget.short_of, budget.amount_micro, budget.amount_macc) == (
        ShortOf.BUDGET,
        300,
        1_000,
    )
    assert (reserve.short_of, reserve.amount_macc) == (ShortOf.RESERVE, 1_000)


def test_a_job_of_size_0_needs_a_bid_all_the_same() -> None:
    queue = (Job("nothing", 0, None),)
    market = Market(10, (Pool("p", 0),), (Team("poor", "p", 0, queue), Team("rich", "p", 1, queue)))
    assert explain(market, "rich", "nothing").state is JobState.IN
    poor = explain(market, "poor", "nothing")
    assert poor.state is JobState.OUT
    assert [(s.short_of, s.amount_micro, s.amount_macc) for s in poor.shortages] == [
        (ShortOf.BUDGET, 1, 0)
    ]
    assert poor.least_bid == Threshold(1, 0, 0)


def test_a_job_ahead_that_comes_back_at_its_limit_spends_the_bid_first() -> None:
    team = Team("t", "p", 10, (Job("ahead", 1_000, 10), Job("asked", 1_000, None)))
    assert highest_price(team, 1) == 5, "at 10 the bid covers one of them, from 11 on none"


def test_a_reserve_that_only_lets_fewer_ahead_takes_nothing_from_the_job() -> None:
    """At 6 the first job stays away; at 4, without the reserve, it spends the bid."""
    queue = (Job("cheap", 6_000, 4), Job("dear", 200, 8), Job("asked", 600, 11))
    market = Market(800, (Pool("p", 1),), (Team("t", "p", 3, queue),), reserve_price_micro=6)
    explanation = explain(market, "t", "asked")
    reserve = explanation.shortages[-1]
    assert explanation.bought_macc > 0
    assert (reserve.short_of, reserve.amount_macc) == (ShortOf.RESERVE, 0)
    assert (explanation.pool_price_micro, reserve.amount_micro) == (6, 2)


def test_a_threshold_may_miss_a_value_where_prices_are_a_few_ticks() -> None:
    """The limit of exactness that `explain` names, so that it stays known."""
    queue = (Job("first", 6, 2), Job("asked", 6_000, 7), Job("last", 6_000, 7))
    teams = (
        Team("t0", "p1", 7, queue),
        Team("t1", "p0", 6, (Job("j", 200, 4),)),
        Team("t2", "p0", 0, (Job("j", 403, 11),)),
    )
    market = Market(7_000, (Pool("p0", 5), Pool("p1", 1)), teams, idle_own_supply="lend")
    assert explain(market, "t0", "asked").least_bid is None
    assert [b for b in range(60) if runs(changed(market, "t0", "asked", "bid", b), "t0", "asked")]


def test_the_reserve_is_named_where_it_keeps_leftovers_from_an_opportunistic_job() -> None:
    market = Market(1_000, (Pool("p", 0),), (Team("t", "p", 5, (Job("j", 700, 0),)),), 10)
    explanation = explain(market, "t", "j")
    assert explanation.state is JobState.OUT
    assert [s.short_of for s in explanation.shortages] == ["price", "budget", "supply", "reserve"]
    assert explanation.shortages[-1].amount_macc == 700
    free = explain(replace(market, reserve_price_micro=0), "t", "j")
    assert (free.state, free.opportunistic_macc) == (JobState.OPPORTUNISTIC, 700)
    assert [(s.short_of, s.amount_micro) for s in free.shortages] == [(ShortOf.PRICE, 1)]


def test_without_any_supply_nothing_helps() -> None:
    market = Market(0, (Pool("bare", 0),), (Team("t", "bare", 5, (Job("j", 7, None),)),))
    explanation = explain(market, "t", "j")
    assert explanation.pool_price_micro is None
    assert [s.short_of for s in explanation.shortages] == ["supply"]
    assert (explanation.least_limit, explanation.least_bid) == (None, None)
    assert "nothing is for sale" in "\n".join(explanation.to_lines())


def test_more_money_may_price_out_a_job_that_less_money_lets_run() -> None:
    """The head of the queue has the lower limit: a richer team bids the price past it."""
    queue = (Job("cheap", 50_000, 10), Job("dear", 200_000, None))
    market = Market(100_000, (Pool("p", 0),), (Team("t", "p", 5_000, queue),))
    cheap = explain(market, "t", "cheap")
    assert (cheap.state, cheap.pool_price_micro) == (JobState.OUT, 50)
    assert cheap.least_bid is not None
    assert cheap.least_bid.value_micro < 1_000
    assert cheap.least_limit == Threshold(50, 50, 50)


def test_the_json_form_is_one_line_with_codes() -> None:
    text = explain(a_market(), "vision", "idle").to_json()
    document = json.loads(text)
    assert "\n" not in text
    assert text.isascii()
    assert document["state"] == "out"
    assert document["shortages"][0]["short_of"] == "price"
    assert document["queue_position"] == 2
    assert set(document) == set(Explanation.__dataclass_fields__)


def test_ids_that_would_break_a_line_are_escaped_in_words() -> None:
    market = Market(1, (Pool("p", 0),), (Team("a\nb", "p", 1, (Job("x\x1b[2J", 1, 1),)),))
    lines = explain(market, "a\nb", "x\x1b[2J").to_lines()
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith('"x\\u001b[2J" of team "a\\nb" in pool p: ')


@pytest.mark.parametrize(
    ("team", "job", "code", "path"),
    [("none", "train", "unknown_team", "$.teams"), ("speech", "x", "unknown_job", "$.teams[1].")],
)
def test_what_does_not_exist_is_refused_with_a_path(
    team: str, job: str, code: str, path: str
) -> None:
    with pytest.raises(ClearingInputError) as caught:
        explain(a_market(), team, job)
    assert caught.value.code == code
    assert caught.value.path.startswith(path)


def test_a_job_id_names_its_team_unless_several_have_it() -> None:
    market = a_market()
    assert team_of_job(market, "tune") == "speech"
    twice = replace(market, teams=(*market.teams, Team("more", "products", 0, (Job("tune", 1),))))
    with pytest.raises(ClearingInputError, match='2 teams, such as "speech" and "more"'):
        team_of_job(twice, "tune")
    with pytest.raises(ClearingInputError, match="no team has a job"):
        team_of_job(market, "none")
