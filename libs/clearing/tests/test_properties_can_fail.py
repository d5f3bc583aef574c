"""Canaries of the property tests: each fails once `clear` is wrong in the way that it is about."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from libs.clearing.tests import test_properties_prices as prices
from libs.clearing.tests import test_properties_quantities as quantities
from walras_clearing import Job, Market, PriceHint, clear
from walras_clearing.model import ClearingResult
from walras_clearing.testing import COARSE, FINE_TICKS

GENERATE_ONLY = settings(
    deadline=None, max_examples=400, phases=(Phase.generate,), database=None, derandomize=True
)
Clear = Callable[..., ClearingResult]


def with_price(result: ClearingResult, price: int | None) -> ClearingResult:
    return replace(result, reference_price_micro=price)


def with_allocations(result: ClearingResult, change: Callable[[int], int]) -> ClearingResult:
    teams = {
        name: replace(team, allocated_macc=change(team.allocated_macc))
        for name, team in result.teams.items()
    }
    return replace(result, teams=teams)


def every_job(market: Market, change: Callable[[Job], Job]) -> Market:
    teams = tuple(replace(team, jobs=tuple(map(change, team.jobs))) for team in market.teams)
    return replace(market, teams=teams)


def half_served(market: Market) -> ClearingResult:
    return with_allocations(clear(market), lambda macc: macc // 2)


def dearer_where_own_supply_is_tiny(market: Market) -> ClearingResult:
    result = clear(market)
    price = result.reference_price_micro
    tiny = any(pool.own_supply_macc == 1 for pool in market.pools)
    return with_price(result, 3 * price + 10 if tiny and price is not None else price)


def no_limit_is_a_limit(market: Market) -> ClearingResult:
    return clear(every_job(market, lambda job: replace(job, limit_micro=job.limit_micro or 3)))


def two_ticks_too_dear(market: Market) -> ClearingResult:
    result = clear(market)
    price = result.reference_price_micro
    return with_price(result, None if price is None else price + 2)


def unfunded_teams_bid(market: Market) -> ClearingResult:
    teams = tuple(
        replace(team, bid_micro_per_hour=max(1, team.bid_micro_per_hour)) for team in market.teams
    )
    return clear(replace(market, teams=teams))


def rejected_jobs_count(market: Market) -> ClearingResult:
    return clear(every_job(market, lambda job: replace(job, limit_micro=None)))


def more_supply_is_dearer(market: Market) -> ClearingResult:
    return clear(replace(market, shared_supply_macc=max(0, 2500 - market.shared_supply_macc)))


def the_first_team_is_favoured(market: Market) -> ClearingResult:
    teams = tuple(
        replace(team, bid_micro_per_hour=team.bid_micro_per_hour + 5 * (number == 0))
        for number, team in enumerate(market.teams)
    )
    return clear(replace(market, teams=teams))


def hints_matter(market: Market, *, hint: PriceHint | None = None) -> ClearingResult:
    result = clear(market)
    return result if hint is None else with_price(result, hint.reference_price_micro)


class Drifting:
    """A clearing that remembers how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, market: Market) -> ClearingResult:
        self.calls += 1
        return with_price(clear(market), self.calls)


ANY, COARSE_ONES, FINE_ONES = prices.markets(), prices.markets(COARSE), prices.markets(FINE_TICKS)
CANARIES: dict[str, tuple[Any, Any, tuple[st.SearchStrategy[Any], ...], Clear]] = {
    "property 4": (
        quantities,
        quantities.test_property_4_scarce_supply_is_used_and_free_supply_serves_all,
        (ANY,),
        rejected_jobs_count,
    ),
    "property 5": (
        prices,
        prices.test_property_5_the_price_fits_and_one_tick_less_does_not,
        (ANY,),
        two_ticks_too_dear,
    ),
    "property 6": (
        prices,
        prices.test_property_6_no_price_rises_when_shared_supply_grows,
        (ANY, st.integers(1, 2000)),
        more_supply_is_dearer,
    ),
    "property 9": (
        prices,
        prices.test_property_9_rescaling_the_local_credits_of_a_pool_changes_nothing,
        (ANY, st.integers(2, 50)),
        Drifting(),
    ),
    "property 12": (
        quantities,
        quantities.test_property_12_no_funded_job_above_the_price_goes_unserved,
        (ANY,),
        half_served,
    ),
    "property 14, order": (
        prices,
        prices.test_property_14_order_of_pools_teams_and_jobs_does_not_matter,
        (ANY, st.randoms(use_true_random=False)),
        the_first_team_is_favoured,
    ),
    "property 14, warm": (
        prices,
        prices.test_property_14_a_warm_clear_equals_a_cold_one,
        (ANY, st.lists(st.integers(-5, 2 * 10**18), min_size=4, max_size=4)),
        hints_matter,
    ),
    "property 16, limits": (
        prices,
        prices.test_property_16_a_limit_beyond_every_price_is_no_limit,
        (COARSE_ONES,),
        no_limit_is_a_limit,
    ),
    "property 16, own supply": (
        prices,
        prices.test_property_16_vanishing_own_supply_converges_to_none,
        (FINE_ONES,),
        dearer_where_own_supply_is_tiny,
    ),
    "property 16, ticks": (
        prices,
        prices.test_property_16_finer_ticks_converge,
        (COARSE_ONES,),
        two_ticks_too_dear,
    ),
    "property 17, no money": (
        prices,
        prices.test_property_17_what_cannot_count_changes_no_price,
        (ANY,),
        unfunded_teams_bid,
    ),
    "property 17, low limits": (
        prices,
        prices.test_property_17_what_cannot_count_changes_no_price,
        (ANY,),
        rejected_jobs_count,
    ),
}


@pytest.mark.parametrize(
    ("module", "test", "strategies", "wrong"), CANARIES.values(), ids=CANARIES.keys()
)
def test_the_property_fails_for_a_clearing_that_breaks_it(
    module: Any,
    test: Any,
    strategies: tuple[st.SearchStrategy[Any], ...],
    wrong: Clear,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "clear", wrong)
    broken: Callable[[], None] = GENERATE_ONLY(given(*strategies)(test.hypothesis.inner_test))
    with pytest.raises(AssertionError):
        broken()
