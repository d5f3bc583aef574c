"""The contracted floor: own supply by income, in whole macc."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.accounts import PoolDocument, TeamAccount
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_snapshot.core import contracted_floor, shares_by_income

INCOMES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.integers(0, 10**12), max_size=8
).map(lambda found: list(found.items()))


@settings(deadline=None)
@given(own=st.integers(0, 10**15), incomes=INCOMES)
def test_the_whole_own_supply_is_split_and_nobody_is_a_macc_from_the_exact_share(
    own: int, incomes: list[tuple[str, int]]
) -> None:
    shares = shares_by_income(own, incomes)
    total = sum(income for _, income in incomes)
    assert sum(shares.values()) == (own if total else 0)
    for team, income in incomes:
        exact = Fraction(own * income, total) if total else Fraction(0)
        assert abs(shares[team] - exact) < 1
        assert income > 0 or shares[team] == 0


@settings(deadline=None)
@given(own=st.integers(0, 10**6), incomes=INCOMES, data=st.data())
def test_the_order_in_which_teams_are_named_does_not_matter(
    own: int, incomes: list[tuple[str, int]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(incomes))
    assert shares_by_income(own, incomes) == shares_by_income(own, shuffled)


def test_the_rest_goes_one_each_in_id_order_to_teams_with_a_remainder() -> None:
    assert shares_by_income(5, [("c", 1), ("a", 1), ("b", 2)]) == {"a": 2, "b": 2, "c": 1}
    assert shares_by_income(2, [("a", 0), ("b", 1), ("c", 1), ("d", 1)]) == {
        "a": 0,
        "b": 1,
        "c": 1,
        "d": 0,
    }


def test_a_team_gets_its_share_in_each_market_in_which_its_pool_owns_something() -> None:
    def supply(market: str, own: tuple[OwnSupply, ...]) -> SupplyPublished:
        return SupplyPublished(
            market=market, shared_macc=900, own=own, withheld_macc=0, market_time_ms=0
        )

    supplies = {
        "fast": supply("fast", (OwnSupply(pool="p", macc=3000), OwnSupply(pool="q", macc=1000))),
        "slow": supply("slow", (OwnSupply(pool="q", macc=500),)),
    }
    teams = (
        TeamAccount(team="rich", income_local_per_hour=2),
        TeamAccount(team="poor", income_local_per_hour=1),
    )
    pools = [
        PoolDocument(pool="p", weight_micro_per_hour=1, teams=teams),
        PoolDocument(
            pool="q",
            weight_micro_per_hour=1,
            teams=(TeamAccount(team="idle", income_local_per_hour=0),),
        ),
    ]
    assert contracted_floor(supplies, pools) == {
        "rich": {"fast": 2000},
        "poor": {"fast": 1000},
        "idle": {},
    }
