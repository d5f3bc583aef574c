"""What use that is not rated yet will cost: the sum over its records, whatever came and went."""

from hypothesis import given
from hypothesis import strategies as st

from walras_billing.unrated import STRETCH_MS, UnratedUse
from walras_billing.usage_line import UsageLine, line_of
from walras_contracts.quantities import PPM
from walras_contracts.work import UsageMetered, WorkClass

PRICES = {("a", "p"): 70_001, ("b", "p"): 99_991, ("b", "q"): 0}
"""Market a has no price for pool q."""


def line(
    start_ms: int, length_ms: int, names: tuple[str, str, str], limit: int | None, free: bool
) -> UsageLine:
    team, market, pool = names
    return line_of(
        UsageMetered(
            lease="l",
            node="n",
            attempt=1,
            seq=0,
            team=team,
            pool=pool,
            job="j",
            market=market,
            quantity_macc=7_003,
            start_ms=start_ms,
            end_ms=start_ms + length_ms,
            work_class=WorkClass.OPPORTUNISTIC if free else WorkClass.MARKET,
            billable=True,
            limit_micro=limit,
            tariff_ppm=PPM,
        ),
        60_000,
    )


LINES = st.builds(
    line,
    st.integers(0, 4 * STRETCH_MS),
    st.integers(1, 3 * STRETCH_MS),
    st.sampled_from(["tap", "taq", "tbp", "tbq", "uap", "ubp"]).map(tuple),
    st.sampled_from([None, 0, 80_000]),
    st.sampled_from([False, False, True]),
)


def cost_of(one: UsageLine, window: tuple[int, int]) -> int:
    """Return what a record costs within a window that begins and ends between two stretches."""
    terms = one.terms
    price = PRICES.get((terms.series, terms.pool))
    inside_ms = min(one.end_ms, window[1]) - max(one.start_ms, window[0])
    if terms.is_free or price is None or inside_ms <= 0:
        return 0
    if terms.limit_micro is not None:
        price = min(price, terms.limit_micro)
    return price * terms.tariff_ppm * terms.quantity_macc * inside_ms


@given(lines=st.lists(LINES, max_size=12), data=st.data())
def test_the_cost_is_that_of_what_was_accepted_and_not_rated(
    lines: list[UsageLine], data: st.DataObject
) -> None:
    rated = data.draw(st.lists(st.sampled_from(lines), unique=True)) if lines else []
    use = UnratedUse()
    for each in lines:
        use.accept(each)
    for each in rated:
        use.rate(each)
    left = [each for each in lines if each not in rated]
    windows = [(0, STRETCH_MS), (STRETCH_MS, 3 * STRETCH_MS), (0, 9 * STRETCH_MS)]
    for team in "tu":
        own = [each for each in left if each.terms.team == team]
        found = use.cost(team, windows, lambda series, pool: PRICES.get((series, pool)))
        assert found == [sum(cost_of(each, window) for each in own) for window in windows]


@given(lines=st.lists(LINES, max_size=12))
def test_nothing_is_kept_of_use_that_is_rated(lines: list[UsageLine]) -> None:
    use = UnratedUse()
    for each in lines:
        use.accept(each)
    for each in lines:
        use.rate(each)
    assert not any(vars(use).values())
