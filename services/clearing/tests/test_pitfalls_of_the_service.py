"""Properties and pitfalls that the auction alone cannot show (theory: §8 property 9, §9)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_clearing_service.account_book import income_micro_per_hour
from walras_contracts.market import MarketState

WEIGHT = 10_000_000
FEW = settings(deadline=None, max_examples=15)


def a_market_with_limits(kit: Any, incomes: dict[str, int]) -> tuple[Any, list[Any]]:
    """Three teams of one pool, whose jobs carry limits around the price."""
    world = kit.world()
    jobs = [
        kit.queued(team, f"{team}-{number}", size, limit=limit, position=number, gang=False)
        for team in incomes
        for number, (size, limit) in enumerate([(3000, 2_000_000), (4000, 900_000), (2000, None)])
    ]
    document = world.document(kit.pool("pool-0", WEIGHT, incomes))
    return world, [document, kit.supply("a100", 6000, {"pool-0": 1500}), *jobs]


def decided(kit: Any, incomes: dict[str, int]) -> Any:
    world, events = a_market_with_limits(kit, incomes)
    world.feed(*events)
    world.runner().advance()
    (record,) = world.records("a100")
    assert record.state is MarketState.CLEARED
    assert record.reference_price_micro
    quotas = {team: world.quotas(team)[-1].markets for team in incomes}
    prices = [
        (price.reference_price_micro, price.pools[0].price_micro) for price in world.prices("a100")
    ]
    return prices, quotas


@pytest.mark.parametrize("factor", [2, 7, 1_000_000])
def test_property_9_rescaling_the_local_credits_of_a_pool_changes_no_price_and_no_quota(
    kit: Any, factor: int
) -> None:
    incomes = {"team-0": 1, "team-1": 3, "team-2": 3}
    scaled = {team: income * factor for team, income in incomes.items()}
    assert decided(kit, incomes) == decided(kit, scaled)


def test_property_9_would_see_incomes_that_are_scaled_for_one_team_only(kit: Any) -> None:
    """Canary: shares matter, so the comparison above is not of two constants."""
    incomes = {"team-0": 1, "team-1": 3, "team-2": 3}
    assert decided(kit, incomes) != decided(kit, {**incomes, "team-0": 7})


@FEW
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.integers(1, 10**6),
    st.integers(1, 10**12),
)
def test_pitfall_8_incomes_and_the_rate_that_turns_them_into_money_are_of_one_document(
    incomes: list[int], factor: int, weight: int
) -> None:
    """A pool mints its weight, to the last µcr a team, whatever its local credits are worth."""
    total = sum(incomes)
    minted = [income_micro_per_hour(weight, income, total) for income in incomes]
    assert minted == [
        income_micro_per_hour(weight, income * factor, total * factor) for income in incomes
    ]
    if total:
        assert weight - len(incomes) < sum(minted) <= weight
    # A sum from an older document would be a subsidy.
    assert total < 2 or income_micro_per_hour(weight, total, total // 2) > weight


@pytest.mark.parametrize("left", [2000, 700, 1, 0])
def test_pitfall_12_quotas_that_stand_in_a_halted_market_fit_what_supply_is_left(
    kit: Any, left: int
) -> None:
    told = []
    for _ in range(2):
        world, events = a_market_with_limits(kit, {"team-0": 1, "team-1": 3, "team-2": 3})
        world.feed(*events)
        world.runner().advance()
        before = {team: world.quotas(team)[-1].markets[0] for team in ("team-0", "team-1")}
        world.solver = kit.failing(left)
        world.feed(kit.supply("a100", left))
        world.runner().advance()
        assert world.records("a100")[-1].state is MarketState.HALTED
        after = {
            team: [
                (m.allocated_macc, m.opportunistic_macc)
                for m in world.quotas(team)[-1].markets
                if m.market == "a100"
            ]
            for team in ("team-0", "team-1", "team-2")
        }
        held = [macc for entries in after.values() for entry in entries for macc in entry]
        assert sum(held) <= left
        assert any(quota.allocated_macc > 0 for quota in before.values())
        told.append(after)
    assert told[0] == told[1], "scaled down the same each time"
