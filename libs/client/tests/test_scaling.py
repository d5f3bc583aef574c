"""Capacity taken back cuts quotas in proportion, in whole macc, the same for everybody."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from walras_client.scaling import fit, scale_down
from walras_client.sheets import Quota

AMOUNTS = st.dictionaries(st.text("abcd", min_size=1, max_size=3), st.integers(0, 10**15))
CAPACITY = st.integers(0, 4 * 10**15)


@settings(deadline=None)
@given(amounts=AMOUNTS, capacity=CAPACITY)
def test_what_is_cut_fits_exactly_and_nobody_is_a_macc_from_the_exact_share(
    amounts: dict[str, int], capacity: int
) -> None:
    cut = scale_down(amounts, capacity)
    total = sum(amounts.values())
    assert sum(cut.values()) == min(total, capacity)
    for team, amount in amounts.items():
        assert 0 <= cut[team] <= amount
        if total > capacity:
            assert abs(cut[team] - Fraction(amount * capacity, total)) < 1


@settings(deadline=None)
@given(amounts=AMOUNTS, capacity=CAPACITY, data=st.data())
def test_the_order_of_the_teams_does_not_matter(
    amounts: dict[str, int], capacity: int, data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(amounts.items()))))
    assert scale_down(amounts, capacity) == scale_down(shuffled, capacity)


@settings(deadline=None)
@given(
    quotas=st.dictionaries(
        st.text("abcd", min_size=1, max_size=3),
        st.builds(Quota, st.integers(0, 1000), st.integers(0, 1000)),
    ),
    capacity=st.integers(0, 5000),
)
def test_opportunistic_quotas_go_first(quotas: dict[str, Quota], capacity: int) -> None:
    cut = fit(quotas, capacity)
    allocated = sum(q.allocated_macc for q in quotas.values())
    assert sum(q.allocated_macc + q.opportunistic_macc for q in cut.values()) <= capacity
    if allocated <= capacity:
        assert all(cut[t].allocated_macc == quotas[t].allocated_macc for t in quotas)
    else:
        assert all(q.opportunistic_macc == 0 for q in cut.values())


def test_the_rest_of_a_cut_goes_in_id_order() -> None:
    assert scale_down({"c": 3, "a": 3, "b": 3}, 8) == {"a": 3, "b": 3, "c": 2}
    assert scale_down({"a": 5}, 0) == {"a": 0}


@settings(deadline=None)
@given(
    quotas=st.dictionaries(
        st.text("abcd", min_size=1, max_size=3),
        st.builds(Quota, st.integers(0, 1000), st.integers(0, 1000)),
    ),
    capacities=st.lists(st.integers(0, 5000), min_size=1, max_size=4),
    data=st.data(),
)
def test_pitfall_12_a_fallback_never_hands_out_more_than_what_is_there_now(
    quotas: dict[str, Quota], capacities: list[int], data: st.DataObject
) -> None:
    """However often capacity is taken back, and in whatever order a reader holds the teams."""
    reordered = dict(data.draw(st.permutations(list(quotas.items()))))
    for capacity in capacities:
        cut = fit(quotas, capacity)
        assert sum(q.allocated_macc + q.opportunistic_macc for q in cut.values()) <= capacity
        assert cut == fit(reordered, capacity), "the same for every reader"
        assert fit(cut, capacity) == cut, "what fits is left alone"
        for team, quota in cut.items():
            assert quota.allocated_macc <= quotas[team].allocated_macc
            assert quota.opportunistic_macc <= quotas[team].opportunistic_macc
