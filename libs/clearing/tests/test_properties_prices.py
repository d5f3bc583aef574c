"""What prices must satisfy in every market (theory: properties 3, 5–9, 14–17)."""

import os
import subprocess
import sys
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from walras_clearing import Job, Market, Pool, PriceHint, Team, clear
from walras_clearing.instance import market_to_json, result_to_json
from walras_clearing.model import ClearingResult
from walras_clearing.reference import Book, team_open
from walras_clearing.testing import COARSE, FINE_TICKS, Shape, draw_market
from walras_clearing.validate import PRICE_MAX_MICRO

RUNS = settings(deadline=None, max_examples=max(100, settings().max_examples))
ABSENT = 10**30
"""An absent price counts as higher than all others: nothing can be bought."""


@st.composite
def markets(draw: st.DrawFn, shape: Shape | None = None) -> Market:
    return draw_market(lambda low, high: draw(st.integers(low, high)), shape)


@st.composite
def changed_teams(draw: st.DrawFn, shape: Shape | None = None) -> tuple[Market, Team, Market]:
    """A market, one of its teams, and the market with that team wanting more."""
    market = draw(markets(shape).filter(lambda market: bool(market.teams)))
    index = draw(st.integers(0, len(market.teams) - 1))
    team = market.teams[index]
    shape = shape or COARSE
    richer = replace(
        team, bid_micro_per_hour=team.bid_micro_per_hour + draw(st.integers(1, 999 * shape.money))
    )
    job = Job(
        "new", draw(st.integers(1, 1000)), draw(st.integers(0, shape.limit_micro * shape.money))
    )
    limits = [job.limit_micro for job in team.jobs]
    queue = tuple(
        replace(job, limit_micro=None if limit is None else min(limit + 1, 10**12))
        for job, limit in zip(team.jobs, limits, strict=True)
    )
    more = draw(
        st.sampled_from((richer, replace(team, jobs=(*team.jobs, job)), replace(team, jobs=queue)))
    )
    return market, team, with_team(market, index, more)


def with_team(market: Market, index: int, team: Team) -> Market:
    return replace(market, teams=(*market.teams[:index], team, *market.teams[index + 1 :]))


def price_of(result: ClearingResult) -> int:
    price = result.reference_price_micro
    return ABSENT if price is None else price


def scaled(market: Market, money: int = 1, quantity: int = 1) -> Market:
    """Money × `money` throughout; sizes, supplies and budgets × `quantity`."""
    return replace(
        market,
        shared_supply_macc=market.shared_supply_macc * quantity,
        reserve_price_micro=market.reserve_price_micro * money,
        pools=tuple(
            replace(pool, own_supply_macc=pool.own_supply_macc * quantity) for pool in market.pools
        ),
        teams=tuple(
            replace(
                team,
                bid_micro_per_hour=team.bid_micro_per_hour * money * quantity,
                jobs=tuple(
                    Job(
                        job.job,
                        job.size_macc * quantity,
                        None if job.limit_micro is None else job.limit_micro * money,
                    )
                    for job in team.jobs
                ),
            )
            for team in market.teams
        ),
    )


def without_own_supply(market: Market) -> Market:
    return replace(market, pools=tuple(replace(pool, own_supply_macc=0) for pool in market.pools))


@RUNS
@given(markets())
def test_property_3_the_pool_price_blends_the_cost_to_within_one_tick(market: Market) -> None:
    result = clear(market)
    book = Book(market)
    reference = result.reference_price_micro
    for pool in book.pools:
        p = result.pools[pool.pool].price_micro
        own = pool.own_supply_macc
        if reference is None or p is None:
            continue
        assert 0 <= p <= reference
        if own == 0:
            assert p == reference
            continue
        quantity = book.open(pool, p)
        assert p * quantity >= reference * (quantity - own), "the teams pay the purchases"
        if p > 0:
            quantity = book.open(pool, p - 1)
            assert (p - 1) * quantity < reference * (quantity - own), "one tick less does not"


@RUNS
@given(markets())
def test_property_5_the_price_fits_and_one_tick_less_does_not(market: Market) -> None:
    price = clear(market).reference_price_micro
    book = Book(market)

    def bought(at: int) -> int:
        return sum(book.purchases(pool, at, book.pool_price(pool, at)) for pool in book.pools)

    if price is None:
        assert book.shared == 0
        return
    assert bought(price) <= book.shared
    if price > market.reserve_price_micro:
        assert bought(price - 1) > book.shared


@RUNS
@given(markets(), st.integers(1, 2000))
def test_property_6_no_price_rises_when_shared_supply_grows(market: Market, more: int) -> None:
    before = clear(market)
    after = clear(replace(market, shared_supply_macc=market.shared_supply_macc + more))
    assert price_of(after) <= price_of(before)
    for name, pool in before.pools.items():
        price = after.pools[name].price_micro
        assert pool.price_micro is None or price is None or price <= pool.price_micro


@RUNS
@given(markets(FINE_TICKS), st.integers(1, 1000), st.integers(0, 2))
def test_property_6_own_supply_lowers_the_price_of_its_pool(
    market: Market, more: int, index: int
) -> None:
    assume(index < len(market.pools))
    pool = market.pools[index]
    larger = replace(pool, own_supply_macc=pool.own_supply_macc + more)
    pools = (*market.pools[:index], larger, *market.pools[index + 1 :])
    before = clear(market).pools[pool.pool].price_micro
    after = clear(replace(market, pools=pools)).pools[pool.pool].price_micro
    assert before is None or (after is not None and after <= before)


@RUNS
@given(changed_teams(FINE_TICKS))
def test_property_7_the_reference_price_does_not_fall_when_a_team_wants_more(
    change: tuple[Market, Team, Market],
) -> None:
    market, _, more = change
    assert price_of(clear(more)) >= price_of(clear(market))


@RUNS
@given(changed_teams())
def test_property_7_with_coarse_ticks_it_falls_only_by_the_last_tick_of_the_pool(
    change: tuple[Market, Team, Market],
) -> None:
    market, team, more = change
    price = price_of(clear(more))
    if price >= price_of(clear(market)):
        return
    book = Book(more)
    bought = 0
    for pool in book.pools:
        p = book.pool_price(pool, price)
        assert p is not None
        purchases = book.purchases(pool, price, p)
        if pool.pool == team.pool and p > 0:
            purchases = max(purchases, book.open(pool, p - 1) - pool.own_supply_macc)
        bought += purchases
    assert bought > book.shared


@RUNS
@given(markets(), st.sampled_from((2, 3, 10)))
def test_property_8_finer_money_never_lowers_a_price_below_the_coarse_tick(
    market: Market, money: int
) -> None:
    assume(max([0, *(j.limit_micro or 0 for t in market.teams for j in t.jobs)]) <= 10**11)
    assume(market.reserve_price_micro <= 10**11)
    assume(all(team.bid_micro_per_hour < 10**13 for team in market.teams))
    coarse, fine = price_of(clear(market)), price_of(clear(scaled(market, money=money)))
    assert (coarse == ABSENT) == (fine == ABSENT)
    if coarse != ABSENT:
        assert coarse <= -(-fine // money)


@RUNS
@given(markets(COARSE), st.sampled_from((2, 4, 1024, 10)))
def test_property_8_without_own_supply_money_scales_to_the_tick(market: Market, money: int) -> None:
    market = without_own_supply(market)
    result, fine = clear(market), clear(scaled(market, money=money))
    if result.reference_price_micro is None or fine.reference_price_micro is None:
        assert result.reference_price_micro == fine.reference_price_micro
        return
    assert result.reference_price_micro == -(-fine.reference_price_micro // money)
    if fine.reference_price_micro == money * result.reference_price_micro:
        assert fine.teams == result.teams


@RUNS
@given(markets(COARSE), st.sampled_from((2, 5, 100)))
def test_property_8_quantities_scale_to_one_macc_per_team(market: Market, quantity: int) -> None:
    market = without_own_supply(market)
    large = price_of(clear(scaled(market, quantity=quantity)))
    low = price_of(clear(market))
    scarcer = max(0, market.shared_supply_macc - len(market.teams))
    high = price_of(clear(replace(market, shared_supply_macc=scarcer)))
    assert low <= large <= high


@RUNS
@given(markets(COARSE), st.sampled_from((2, 5, 100)))
def test_property_8_limits_scale_against_quantities(market: Market, factor: int) -> None:
    # q, s × m at budgets b and limits ℓ, against q, s at b and ℓ·m: prices differ by m.
    market = replace(without_own_supply(market), reserve_price_micro=0)
    budgets = replace(
        market,
        teams=tuple(
            replace(team, bid_micro_per_hour=team.bid_micro_per_hour * factor)
            for team in market.teams
        ),
    )
    high_limits = scaled(market, money=factor)
    large = scaled(market, quantity=factor)
    assert [team.bid_micro_per_hour for team in high_limits.teams] == [
        team.bid_micro_per_hour for team in budgets.teams
    ]
    price, other = price_of(clear(large)), price_of(clear(high_limits))
    if ABSENT in (price, other):
        assert price == other
        return
    scarcer = max(0, market.shared_supply_macc - len(market.teams))
    bound = price_of(clear(replace(high_limits, shared_supply_macc=scarcer)))
    assert -(-other // factor) <= price <= (ABSENT if bound == ABSENT else -(-bound // factor))


@RUNS
@given(markets(), st.integers(2, 50))
def test_property_9_rescaling_the_local_credits_of_a_pool_changes_nothing(
    market: Market, factor: int
) -> None:
    """Local incomes are shares: a bid is weight · income / Σ incomes, in global money."""

    def bids(rescaled: str) -> Market:
        teams = []
        for team in market.teams:
            members = [other for other in market.teams if other.pool == team.pool]
            scale = factor if team.pool == rescaled else 1
            incomes = sum((len(other.jobs) + 1) * scale for other in members)
            bid = 900_000 * (len(team.jobs) + 1) * scale // incomes
            teams.append(replace(team, bid_micro_per_hour=bid))
        return replace(market, teams=tuple(teams))

    assert clear(bids("nobody")) == clear(bids(market.pools[0].pool))


@RUNS
@given(markets(), st.randoms(use_true_random=False))
def test_property_14_order_of_pools_teams_and_jobs_does_not_matter(
    market: Market, random: "object"
) -> None:
    shuffled = list(market.teams)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    permuted = replace(
        market,
        pools=market.pools[::-1],
        teams=tuple(replace(team, jobs=team.jobs[::-1]) for team in shuffled),
    )
    result = clear(market)
    assert clear(permuted) == result
    assert result_to_json(clear(permuted)) == result_to_json(result)
    assert list(result.teams) == sorted(result.teams, key=str.encode)
    assert list(result.pools) == sorted(result.pools, key=str.encode)


@RUNS
@given(markets(), st.lists(st.integers(-5, 2 * 10**18), min_size=4, max_size=4))
def test_property_14_a_warm_clear_equals_a_cold_one(market: Market, hints: list[int]) -> None:
    pools = dict(zip((pool.pool for pool in market.pools), hints[1:], strict=False))
    cold = clear(market)
    assert clear(market, hint=PriceHint(hints[0], pools)) == cold
    assert clear(market, hint=PriceHint(cold.reference_price_micro or 0, {})) == cold
    assert clear(market) == cold, "a replay"


def test_property_14_the_hash_seed_of_the_process_does_not_matter() -> None:
    market = Market(
        1000,
        (Pool("é", 100), Pool("a", 0), Pool("z", 300)),
        tuple(Team(f"t{i}", "éaz"[i % 3], 9 + i, (Job("j", 90 * i + 1, None),)) for i in range(9)),
    )
    program = (
        "import sys; from walras_clearing import clear;"
        "from walras_clearing.instance import parse_instance, result_to_json;"
        "print(result_to_json(clear(parse_instance(sys.argv[1]))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, market_to_json(market)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert outputs == {result_to_json(clear(market)).encode() + b"\n"}


@RUNS
@given(markets())
def test_property_15_one_level_agrees_with_a_search_for_the_price(market: Market) -> None:
    market = without_own_supply(market)
    result = clear(market)
    if market.shared_supply_macc == 0:
        assert result.reference_price_micro is None
        return
    low, high = market.reserve_price_micro - 1, 10**18 + 1
    while high - low > 1:
        middle = (low + high) // 2
        if sum(team_open(team, middle) for team in market.teams) <= market.shared_supply_macc:
            high = middle
        else:
            low = middle
    assert result.reference_price_micro == high


@RUNS
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=8), st.integers(1, 20_000))
def test_property_15_equal_budgets_without_limits_fill_like_water(
    wants: list[int], supply: int
) -> None:
    teams = tuple(
        Team(f"t{i}", "p", 10**9, (Job("j", want, None),)) for i, want in enumerate(wants)
    )
    result = clear(Market(supply, (Pool("p", 0),), teams))
    got = [result.teams[team.team].allocated_macc for team in teams]
    level, left, thirsty = 0, supply, sorted(wants)
    while thirsty and left >= len(thirsty) * (thirsty[0] - level):
        left -= len(thirsty) * (thirsty[0] - level)
        level = thirsty.pop(0)
    level += left // len(thirsty) if thirsty else 0
    for want, quantity in zip(wants, got, strict=True):
        assert min(want, level) - 1 <= quantity <= min(want, level + 1)


@RUNS
@given(
    st.lists(st.integers(10**8, 10**10), min_size=1, max_size=6),
    st.lists(st.sampled_from((0, 700, 90_000)), min_size=6, max_size=6),
    st.integers(10_000, 10**6),
)
def test_property_15_pools_limited_by_money_buy_in_proportion_to_it(
    bids: list[int], owns: list[int], supply: int
) -> None:
    # Whatever a pool owns, its bids buy their share of what is shared.
    pools = tuple(Pool(f"p{k}", own) for k, own in zip(range(len(bids)), owns, strict=False))
    teams = tuple(
        Team(f"t{k}", f"p{k}", bid, (Job("j", 10**13, None),)) for k, bid in enumerate(bids)
    )
    result = clear(Market(supply, pools, teams))
    price = result.reference_price_micro
    assert price is not None
    assert abs(price * supply - 1000 * sum(bids)) <= (len(bids) + 1) * price + supply
    for k, bid in enumerate(bids):
        exact = supply * bid // sum(bids)
        own = pools[k].own_supply_macc
        # One tick of p moves the quantity by about x/p, one macc by one.
        slack = 2 + len(bids) + (exact + own) // (result.pools[f"p{k}"].price_micro or 1)
        assert abs(result.pools[f"p{k}"].purchased_macc - exact) <= slack


@RUNS
@given(markets(COARSE))
def test_property_16_a_limit_beyond_every_price_is_no_limit(market: Market) -> None:
    unlimited = replace(
        market,
        teams=tuple(
            replace(
                team,
                jobs=tuple(
                    replace(job, limit_micro=10**12 if job.limit_micro is None else job.limit_micro)
                    for job in team.jobs
                ),
            )
            for team in market.teams
        ),
    )
    assert clear(unlimited) == clear(market)


@RUNS
@given(markets(FINE_TICKS))
def test_property_16_vanishing_own_supply_converges_to_none(market: Market) -> None:
    # 1 macc against quantities in steps of 10⁵. In a jump P − ℓ = s·ℓ/z, so P may be off by one
    # part in z, and z exceeds the slack wherever the slack does not move the price already.
    bare = scaled(without_own_supply(market), quantity=10**5)
    bare = replace(bare, idle_own_supply="keep")
    drop = replace(bare, pools=tuple(replace(pool, own_supply_macc=1) for pool in bare.pools))
    assume(bare.shared_supply_macc > 0)
    slack = 10_000

    def price(market: Market, change: int) -> int:
        supply = market.shared_supply_macc + change
        return price_of(clear(replace(market, shared_supply_macc=supply)))

    assert price(bare, slack) - 1 <= price(drop, 0)
    assert price(drop, 0) <= price(bare, -slack) * 1001 // 1000 + 1


@RUNS
@given(markets(COARSE))
def test_property_16_finer_ticks_converge(market: Market) -> None:
    market = without_own_supply(market)
    prices = [price_of(clear(scaled(market, money=10**power))) for power in (3, 4, 7)]
    if ABSENT not in prices:
        assert 0 <= prices[0] * 10 - prices[1] < 10
        assert 0 <= prices[0] * 10_000 - prices[2] < 10_000


@RUNS
@given(markets())
def test_property_17_what_cannot_count_changes_no_price(market: Market) -> None:
    before = clear(market)
    extra = [*market.teams, Team("broke", market.pools[0].pool, 0, (Job("j", 9999, None),))]
    for index, team in enumerate(market.teams):
        price = before.pools[team.pool].price_micro
        if price:
            # Prices may lie above every limit that is allowed.
            jobs = (*team.jobs, Job("low", 777, min(price - 1, PRICE_MAX_MICRO)))
            extra[index] = replace(team, jobs=jobs)
    after = clear(replace(market, teams=tuple(extra), pools=(*market.pools, Pool("empty", 0))))
    assert after.reference_price_micro == before.reference_price_micro
    for name, pool in before.pools.items():
        assert after.pools[name].price_micro == pool.price_micro
        assert after.pools[name].allocated_macc == pool.allocated_macc
