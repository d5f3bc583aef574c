"""What quantities must satisfy in every market (theory: properties 1, 2, 4, 6, 7, 10–13)."""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from walras_clearing import Job, Market, Pool, Team, clear
from walras_clearing.model import ClearingResult
from walras_clearing.reference import Book, team_closed, team_open
from walras_clearing.testing import FINE_TICKS, Shape, draw_market

RUNS = settings(deadline=None, max_examples=max(100, settings().max_examples))
ABSENT = 10**30


@st.composite
def markets(draw: st.DrawFn, shape: Shape | None = None) -> Market:
    return draw_market(lambda low, high: draw(st.integers(low, high)), shape)


def price_of(result: ClearingResult) -> int:
    price = result.reference_price_micro
    return ABSENT if price is None else price


def tick_slack(market: Market, pool: str, price: int) -> int:
    """Macc that the teams of a pool lose to the last tick of its price."""
    members = [team for team in market.teams if team.pool == pool]
    return sum(team_open(team, price - 1) - team_closed(team, price) for team in members)


@RUNS
@given(markets())
def test_property_1_nobody_gets_what_is_not_there_or_not_wanted(market: Market) -> None:
    result, book = clear(market), Book(market)
    purchased = sum(pool.purchased_macc for pool in result.pools.values())
    assert purchased <= book.shared
    for pool in book.pools:
        outcome = result.pools[pool.pool]
        members = [team for team in market.teams if team.pool == pool.pool]
        allocated = sum(result.teams[team.team].allocated_macc for team in members)
        assert outcome.allocated_macc == allocated
        assert allocated <= pool.own_supply_macc + outcome.purchased_macc
        for team in members:
            got = result.teams[team.team]
            assert got.allocated_macc >= 0
            assert got.opportunistic_macc >= 0
            wanted = 0 if outcome.price_micro is None else team_closed(team, outcome.price_micro)
            assert got.allocated_macc <= wanted
            everything = sum(job.size_macc for job in team.jobs)
            assert got.allocated_macc + got.opportunistic_macc <= everything
    used = sum(team.allocated_macc + team.opportunistic_macc for team in result.teams.values())
    assert used <= market.shared_supply_macc + sum(pool.own_supply_macc for pool in market.pools)


@RUNS
@given(markets())
def test_property_2_teams_keep_to_their_bids_and_pay_the_purchases(market: Market) -> None:
    result, book = clear(market), Book(market)
    for team in market.teams:
        price = result.pools[team.pool].price_micro or 0
        paid = price * result.teams[team.team].allocated_macc
        assert paid <= 1000 * team.bid_micro_per_hour
    reference = result.reference_price_micro
    for pool in book.pools:
        outcome = result.pools[pool.pool]
        p = outcome.price_micro or 0
        surplus = result.surplus_nano_per_hour[pool.pool]
        assert surplus == p * outcome.allocated_macc - (reference or 0) * outcome.purchased_macc
        assert surplus >= 0
        if reference is not None and p > 0 and pool.own_supply_macc > 0:
            # The surplus is what the last tick brings in, and less than one macc at the margin.
            above = book.open(pool, p - 1)
            gap = reference - p
            assert surplus <= above + (above - book.closed(pool, p)) * gap + gap
        elif reference is not None:
            assert surplus == 0


@RUNS
@given(markets())
def test_property_4_scarce_supply_is_used_and_free_supply_serves_all(market: Market) -> None:
    result, book = clear(market), Book(market)
    reference = result.reference_price_micro
    for pool in book.pools:
        outcome = result.pools[pool.pool]
        if reference == 0 or outcome.price_micro == 0:
            assert outcome.allocated_macc == book.funded[pool]
        elif outcome.price_micro is not None and pool.own_supply_macc > 0:
            idle = pool.own_supply_macc - outcome.allocated_macc
            assert idle <= tick_slack(market, pool.pool, outcome.price_micro)
    if reference is not None and reference > max(1, market.reserve_price_micro):
        unsold = book.shared - sum(pool.purchased_macc for pool in result.pools.values())
        lost = 0
        for pool in book.pools:
            less = book.pool_price(pool, reference - 1)
            lost += book.purchases(pool, reference - 1, less)
            lost -= result.pools[pool.pool].purchased_macc
        assert unsold < lost, "one tick less would have sold more than there is"


@RUNS
@given(markets(), st.integers(1, 2000))
def test_property_6_nobody_gets_less_when_shared_supply_grows(market: Market, more: int) -> None:
    before = clear(market)
    after = clear(replace(market, shared_supply_macc=market.shared_supply_macc + more))
    for name, team in before.teams.items():
        assert after.teams[name].allocated_macc >= team.allocated_macc


@RUNS
@given(markets(FINE_TICKS), st.integers(1, 1000), st.integers(0, 2))
def test_property_6_a_pool_gets_no_less_when_it_owns_more(
    market: Market, more: int, index: int
) -> None:
    assume(index < len(market.pools))
    pool = market.pools[index]
    larger = replace(pool, own_supply_macc=pool.own_supply_macc + more)
    pools = (*market.pools[:index], larger, *market.pools[index + 1 :])
    before = clear(market).pools[pool.pool].allocated_macc
    assert clear(replace(market, pools=pools)).pools[pool.pool].allocated_macc >= before


@RUNS
@given(markets(FINE_TICKS), st.integers(1, 10**9), st.integers(0, 4))
def test_property_7_a_team_that_bids_more_gets_no_less(
    market: Market, more: int, index: int
) -> None:
    assume(index < len(market.teams))
    team = market.teams[index]
    richer = replace(team, bid_micro_per_hour=team.bid_micro_per_hour + more)
    teams = (*market.teams[:index], richer, *market.teams[index + 1 :])
    before = clear(market).teams[team.team].allocated_macc
    assert clear(replace(market, teams=teams)).teams[team.team].allocated_macc >= before


def in_parts(market: Market, index: int, parts: int) -> tuple[Market, Market]:
    """A market with a team `parts` times as large, and one with so many equal teams instead."""
    team = market.teams[index]
    jobs = tuple(replace(job, size_macc=job.size_macc * parts) for job in team.jobs)
    whole = replace(team, bid_micro_per_hour=team.bid_micro_per_hour * parts, jobs=jobs)
    copies = tuple(replace(team, team=f"{team.team}.{copy}") for copy in range(parts))
    before, after = market.teams[:index], market.teams[index + 1 :]
    return (
        replace(market, teams=(*before, whole, *after)),
        replace(market, teams=(*before, *copies, *after)),
    )


@RUNS
@given(markets(FINE_TICKS), st.integers(0, 4), st.integers(2, 3))
def test_property_10_a_team_in_equal_parts_gets_the_same(
    market: Market, index: int, parts: int
) -> None:
    assume(index < len(market.teams))
    team = market.teams[index]
    whole, split = in_parts(market, index, parts)
    one, many = clear(whole), clear(split)
    slack = len(split.teams)

    def price_with(change: int) -> int:
        supply = max(0, whole.shared_supply_macc + change)
        return price_of(clear(replace(whole, shared_supply_macc=supply)))

    assert price_with(parts) - 1 <= price_of(many) <= price_with(-parts) + 1
    group = sum(many.teams[f"{team.team}.{copy}"].allocated_macc for copy in range(parts))
    assert abs(group - one.teams[team.team].allocated_macc) <= slack


@RUNS
@given(markets(FINE_TICKS), st.integers(0, 4), st.integers(0, 100), st.integers(0, 100))
def test_property_10_an_uneven_split_never_gains(
    market: Market, index: int, money: int, demand: int
) -> None:
    assume(index < len(market.teams))
    # One level: the statement is about identities, not about own supply.
    market = replace(market, pools=tuple(replace(pool, own_supply_macc=0) for pool in market.pools))
    team = market.teams[index]
    bid = team.bid_micro_per_hour * money // 100
    halves = []
    for suffix, budget, first in (("a", bid, True), ("b", team.bid_micro_per_hour - bid, False)):
        jobs = []
        for job in team.jobs:
            size = job.size_macc * demand // 100
            jobs.append(replace(job, size_macc=size if first else job.size_macc - size))
        halves.append(Team(team.team + suffix, team.pool, budget, tuple(jobs)))
    teams = (*market.teams[:index], *halves, *market.teams[index + 1 :])
    result = clear(replace(market, teams=teams))
    group = sum(result.teams[half.team].allocated_macc for half in halves)
    assert group <= clear(market).teams[team.team].allocated_macc + len(teams)


@RUNS
@given(markets())
def test_property_11_who_bids_no_less_envies_nobody_in_the_pool(market: Market) -> None:
    result = clear(market)
    for team in market.teams:
        price = result.pools[team.pool].price_micro
        for other in market.teams:
            same = other.pool == team.pool and price is not None
            if same and team.bid_micro_per_hour >= other.bid_micro_per_hour:
                theirs = result.teams[other.team].allocated_macc
                wanted = team_open(replace(team, bid_micro_per_hour=10**15), price or 0)
                if team.bid_micro_per_hour > 0:
                    assert result.teams[team.team].allocated_macc >= min(wanted, theirs)


@RUNS
@given(markets(), st.integers(0, 4))
def test_property_11_identical_teams_differ_by_the_last_macc_at_most(
    market: Market, index: int
) -> None:
    assume(index < len(market.teams))
    market = replace(market, margin="pro_rata")
    team = market.teams[index]
    assume(2 * team.bid_micro_per_hour <= 10**14)
    twin = replace(team, team=team.team + "twin")
    result = clear(replace(market, teams=(*market.teams, twin)))
    one, two = result.teams[team.team], result.teams[twin.team]
    assert 0 <= one.allocated_macc - two.allocated_macc <= 1


@RUNS
@given(markets())
def test_property_12_no_funded_job_above_the_price_goes_unserved(market: Market) -> None:
    result = clear(market)
    for team in market.teams:
        price = result.pools[team.pool].price_micro
        if price is None or team.bid_micro_per_hour == 0:
            continue
        got = result.teams[team.team].allocated_macc
        limits = [(job.size_macc, job.limit_micro) for job in team.jobs]
        above = sum(size for size, limit in limits if limit is None or limit > price)
        if got < above:
            left = 1000 * team.bid_micro_per_hour - price * got
            assert left < price, "not even one more macc was affordable"


@RUNS
@given(markets())
def test_property_13_a_pool_never_gets_less_than_it_owns(market: Market) -> None:
    result, book = clear(market), Book(market)
    for pool in book.pools:
        outcome = result.pools[pool.pool]
        due = min(book.funded[pool], pool.own_supply_macc)
        slack = 0
        if outcome.price_micro:
            slack = tick_slack(market, pool.pool, outcome.price_micro)
        assert outcome.allocated_macc >= due - slack


@RUNS
@given(markets(FINE_TICKS))
def test_property_13_with_fine_ticks_the_guarantee_is_one_macc_per_team(market: Market) -> None:
    result, book = clear(market), Book(market)
    for pool in book.pools:
        due = min(book.funded[pool], pool.own_supply_macc)
        slack = len(book.members[pool])
        assert result.pools[pool.pool].allocated_macc >= due - slack


@RUNS
@given(markets())
def test_opportunistic_work_comes_before_the_unserved_rest(market: Market) -> None:
    result = clear(market)
    for pool in market.pools:
        members = [team for team in market.teams if team.pool == pool.pool]
        starved = rested = False
        for team in members:
            unfunded = team.bid_micro_per_hour == 0
            waits = sum(job.size_macc for job in team.jobs if unfunded or job.limit_micro == 0)
            got = result.teams[team.team].opportunistic_macc
            starved |= got < waits
            rested |= got > waits
        assert not (starved and rested)


def test_market_weight_orders_leftovers_and_nothing_else() -> None:
    teams = tuple(Team(f"t{i}", f"p{i}", 0, (Job("j", 100, None),)) for i in range(3))
    pools = (Pool("p0", 0), Pool("p1", 0, 5), Pool("p2", 0, 9))
    result = clear(Market(150, pools, teams))
    got = [result.teams[team.team].opportunistic_macc for team in teams]
    assert got == [0, 50, 100]
