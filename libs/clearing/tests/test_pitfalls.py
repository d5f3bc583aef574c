"""The pitfalls of the clearing problem, one test each (theory: section 9).

Number 12, a fallback that hands out more than is left, is tested where fallbacks are: in
`libs/client/tests/test_scaling.py` and `services/clearing/tests/test_pitfalls_of_the_service.py`.
"""

from dataclasses import replace

from walras_clearing import Job, Market, Pool, Team, clear
from walras_clearing.model import ClearingResult
from walras_clearing.reference import Book, least
from walras_clearing.verify import verify


def a_pool_market(
    shared: int, own: int, *teams: tuple[int, tuple[tuple[int, int | None], ...]]
) -> Market:
    return Market(
        shared,
        (Pool("p", own),),
        tuple(
            Team(f"t{i}", "p", bid, tuple(Job(f"j{j}", *job) for j, job in enumerate(jobs)))
            for i, (bid, jobs) in enumerate(teams)
        ),
    )


def cleared(market: Market) -> ClearingResult:
    result = clear(market)
    assert verify(market, result) == ()
    return result


def test_pitfall_1_equal_limits_inside_one_team_count_once_each() -> None:
    market = a_pool_market(50, 0, (10**6, ((30, 5), (30, 5), (30, 5))))
    result = cleared(market)
    assert result.reference_price_micro == 5
    assert result.teams["t0"].allocated_macc == 50


def test_pitfall_2_price_zero_is_decided_by_funded_demand_only() -> None:
    market = a_pool_market(10, 0, (0, ((500, None),)), (1, ((10, 3), (400, 0))))
    result = cleared(market)
    assert result.reference_price_micro == 0
    assert result.teams["t0"].opportunistic_macc == 0
    assert result.teams["t1"].allocated_macc == 10


def test_pitfall_3_without_shared_supply_the_price_is_absent_and_the_search_ends() -> None:
    market = Market(
        0,
        (Pool("rich", 100), Pool("bare", 0)),
        (
            Team("a", "rich", 10**15, (Job("j", 10**6, None),)),
            Team("b", "bare", 10**15, (Job("j", 5, None),)),
        ),
    )
    result = cleared(market)
    assert result.reference_price_micro is None
    assert result.pools["bare"].price_micro is None
    assert result.pools["rich"].price_micro == 10**18 // 101 + 1
    assert result.teams["a"].allocated_macc == 100
    assert result.certificate.pool_prices_below_micro is None


def test_pitfall_4_the_least_price_exists_although_demand_jumps_there() -> None:
    market = a_pool_market(25, 0, (10**6, ((20, 7), (20, 4))), (10**6, ((20, 4),)))
    result = cleared(market)
    assert result.reference_price_micro == 4
    assert result.pools["p"].purchased_macc == 25, "nothing is stranded at the jump"
    got = [result.teams[name].allocated_macc for name in ("t0", "t1")]
    assert got == [23, 2]
    strict = cleared(replace(market, margin="strict_order"))
    got = [strict.teams[name].allocated_macc for name in ("t0", "t1")]
    assert got == [25, 0]


def test_pitfall_5_jobs_are_divisible_so_demand_never_rises_with_the_price() -> None:
    market = a_pool_market(45, 0, (10**6, ((30, 1), (40, 5))))
    quantities = [
        clear(replace(market, reserve_price_micro=p)).teams["t0"].allocated_macc for p in range(8)
    ]
    assert quantities == sorted(quantities, reverse=True)
    assert quantities[1] == 45, "the last job is filled in part"


def test_pitfall_6_a_float_would_round_where_integers_do_not() -> None:
    # 2⁵³ + 1 is the first integer that a double cannot hold.
    size = 2**49 + 1
    market = a_pool_market(size, 0, (10**15, ((size, None),)))
    assert cleared(market).teams["t0"].allocated_macc == size
    # The price is odd and above 2⁵³.
    bid = 10**15 - 1
    price = cleared(a_pool_market(1, 0, (bid, ((2, None),)))).reference_price_micro
    assert price == 1000 * bid // 2 + 1
    assert price != int(1000.0 * bid / 2.0 + 1.0)


def test_pitfall_7_products_beyond_64_bits_are_exact() -> None:
    market = a_pool_market(10**14, 5 * 10**14, (10**15, ((10**15, None),)))
    result = cleared(market)
    price, p = result.reference_price_micro, result.pools["p"].price_micro
    assert price is not None
    assert p is not None
    assert 5 * 10**14 * price > 2**63 or price < 20_000
    own = 5 * 10**14
    small = least(
        0, price, lambda q: min(10**15, 10**18 // q if q else 10**15) * (price - q) <= own * price
    )
    assert p == small


def test_pitfall_8_limits_and_budgets_use_the_same_money() -> None:
    market = a_pool_market(40, 10, (3, ((100, 60),)), (2, ((100, None),)))
    scaled = Market(
        market.shared_supply_macc,
        market.pools,
        tuple(
            replace(
                team,
                bid_micro_per_hour=team.bid_micro_per_hour * 10**6,
                jobs=tuple(
                    replace(job, limit_micro=job.limit_micro and job.limit_micro * 10**6)
                    for job in team.jobs
                ),
            )
            for team in market.teams
        ),
    )
    small, large = cleared(market), cleared(scaled)
    for name, team in small.teams.items():
        assert abs(large.teams[name].allocated_macc - team.allocated_macc) <= 1


def test_pitfall_9_a_satisfied_team_pays_for_what_it_got_not_for_what_it_bid() -> None:
    market = a_pool_market(100, 0, (10**9, ((10, None),)), (1, ((200, None),)))
    result = cleared(market)
    price = result.reference_price_micro
    assert price is not None
    assert price * result.teams["t0"].allocated_macc < 1000 * 10**9
    assert result.teams["t0"].allocated_macc == 10


def test_pitfall_10_the_budget_caps_the_team_and_not_each_job() -> None:
    market = a_pool_market(100, 0, (2, ((30, None), (30, None), (30, None))), (9, ((90, None),)))
    result = cleared(market)
    price = result.reference_price_micro
    assert price
    assert result.teams["t0"].allocated_macc == 2000 // price
    assert result.teams["t0"].allocated_macc > 0


def test_pitfall_11_a_pool_may_be_free_inside_while_the_reference_price_is_positive() -> None:
    market = Market(
        10,
        (Pool("rich", 100), Pool("bare", 0)),
        (
            Team("a", "rich", 5, (Job("j", 90, None),)),
            Team("b", "bare", 5, (Job("j", 50, None),)),
        ),
    )
    result = cleared(market)
    assert result.pools["rich"].price_micro == 0
    assert result.reference_price_micro == 455
    lent = cleared(replace(market, idle_own_supply="lend"))
    assert lent.pools["bare"].purchased_macc == 20


def test_pitfall_13_kinks_and_flat_stretches_do_not_mislead_the_search() -> None:
    # Demand is flat between the limits: every price from 4 to 9 would fit, the least is taken.
    market = a_pool_market(30, 0, (10**6, ((30, 9),)), (10**6, ((50, 3),)))
    assert cleared(market).reference_price_micro == 3
    market = replace(market, shared_supply_macc=29)
    assert cleared(market).reference_price_micro == 9


def test_pitfall_14_own_supply_of_one_pool_can_raise_the_price_of_all() -> None:
    # Blended prices subsidise buying more: nothing is promised to other pools.
    def price(own: int) -> int | None:
        teams = (
            Team("a", "p", 10**9, (Job("j", 1000, 10**6),)),
            Team("b", "q", 40_000, (Job("j", 1000, None),)),
        )
        return cleared(Market(30, (Pool("p", own), Pool("q", 0)), teams)).reference_price_micro

    few, many = price(10), price(20)
    assert few is not None
    assert many is not None
    assert many > few


def test_pitfall_15_at_the_reserve_unsold_supply_is_withheld() -> None:
    market = a_pool_market(100, 0, (10, ((30, None),)), (0, ((50, None),)))
    free = cleared(market)
    assert free.reference_price_micro == 0
    assert free.teams["t1"].opportunistic_macc == 50
    held = cleared(replace(market, reserve_price_micro=4))
    assert held.reference_price_micro == 4
    assert held.pools["p"].purchased_macc == 30
    assert held.teams["t1"].opportunistic_macc == 0


def test_own_supply_is_never_withheld() -> None:
    market = replace(a_pool_market(0, 80, (0, ((50, None),))), reserve_price_micro=4)
    assert cleared(market).teams["t0"].opportunistic_macc == 50
    lent = replace(market, idle_own_supply="lend")
    assert cleared(lent).reference_price_micro == 4
    assert cleared(lent).teams["t0"].opportunistic_macc == 50, "what was not sold comes back"


def test_shared_supply_is_sold_before_lent_supply() -> None:
    market = Market(
        10,
        (Pool("lender", 30), Pool("buyer", 0)),
        (
            Team("idle", "lender", 0, (Job("j", 100, None),)),
            Team("buys", "buyer", 9, (Job("j", 15, None),)),
        ),
        idle_own_supply="lend",
    )
    result = cleared(market)
    assert result.reference_price_micro == 0
    assert result.pools["buyer"].purchased_macc == 15
    # 40 on offer, 15 sold: the 25 left are all lent supply, and go back to their owner.
    assert result.teams["idle"].opportunistic_macc == 25


def test_ties_between_pools_without_own_supply_are_one_queue() -> None:
    teams = tuple(
        Team(f"t{k}", f"p{k}", 10**6, (Job("j", size, 5),)) for k, size in enumerate((60, 30, 10))
    )
    market = Market(50, (Pool("p0", 0), Pool("p1", 0, 9), Pool("p2", 0)), teams)
    result = cleared(market)
    assert [pool.purchased_macc for pool in result.pools.values()] == [30, 15, 5]
    strict = cleared(replace(market, margin="strict_order"))
    assert [pool.purchased_macc for pool in strict.pools.values()] == [20, 30, 0]
    assert sum(Book(market).open(pool, 5) for pool in market.pools) == 0
