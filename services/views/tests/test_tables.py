"""Folds overwrite: told twice, or again from the beginning, they give the same board."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.event import Event
from walras_contracts.market import CycleSummarised, MarketState, PoolPrice, PricePublished
from walras_contracts.money import BalancePublished
from walras_runtime.records import Record
from walras_views.core import board, keep_cycle, window_of
from walras_views.handlers import fold
from walras_views.state import Document, Tables


def summary(market: str, cycle: int, price: int | None = 5, queued: int = 1) -> CycleSummarised:
    return CycleSummarised(
        market=market,
        cycle=cycle,
        market_time_ms=cycle * 60_000,
        state=MarketState.CLEARED,
        reference_price_micro=price,
        pool_prices=(
            PoolPrice(
                pool="p", price_micro=price, weight_micro_per_hour=1, local_income_per_hour=1
            ),
        ),
        supply_macc=10_000,
        demand_macc=12_000,
        allocated_macc=8_000,
        opportunistic_macc=2_000,
        jobs_queued=queued,
        jobs_running=4,
        revenue_micro_per_hour=77,
        occupancy_ppm=800_000 + cycle,
    )


def price(market: str, cycle: int, reference: int) -> PricePublished:
    return PricePublished(
        market=market,
        cycle=cycle,
        market_time_ms=cycle * 60_000,
        reference_price_micro=reference,
        pools=(),
    )


def balance(team: str, boundary_ms: int, wallet: int) -> BalancePublished:
    return BalancePublished(
        team=team,
        pool="p",
        boundary_ms=boundary_ms,
        wallet_micro=wallet,
        earned_micro=9,
        spent_micro=9 - wallet,
        credited_micro=0,
        expired_micro=0,
    )


def shown(events: list[Event], history: int = 50, window_ms: int = 180_000) -> Document:
    tables = Tables(history_cycles=history, window_ms=window_ms)
    for event in events:
        fold(tables, Record(event.TOPIC, 0, 0, event.record_key(), event.TYPE, b"", event))
    return board(tables, history)


CYCLES = st.integers(0, 12)
MARKETS = st.sampled_from(["gpu", "tpu"])
EVENTS = st.lists(
    st.builds(lambda m, c: summary(m, c, 5 + c), MARKETS, CYCLES)
    | st.builds(lambda m, c: price(m, c, 5 + c), MARKETS, CYCLES)
    | st.builds(lambda t, b: balance(t, b, b), st.sampled_from(["a", "b"]), CYCLES),
    max_size=30,
)


@settings(deadline=None)
@given(events=EVENTS, data=st.data())
def test_records_told_again_in_any_order_change_nothing(
    events: list[Event], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(events), max_size=10)) if events else []
    shuffled = data.draw(st.permutations([*events, *again]))
    assert shown(shuffled) == shown(events)


@settings(deadline=None)
@given(events=EVENTS, history=st.integers(1, 5))
def test_only_the_history_is_kept_and_always_its_newest_part(
    events: list[Event], history: int
) -> None:
    cycles: dict[str, set[int]] = {}
    newest: dict[str, int] = {}
    for event in events:
        if isinstance(event, CycleSummarised | PricePublished):
            newest[event.market] = max(newest.get(event.market, -1), event.cycle)
        if isinstance(event, CycleSummarised):
            cycles.setdefault(event.market, set()).add(event.cycle)
    expected = sorted(
        (cycle, market)
        for market, found in cycles.items()
        for cycle in found
        if cycle > newest[market] - history
    )
    found_board = shown(events, history)
    assert [(d["cycle"], d["market"]) for d in found_board["cycles"]] == expected
    assert sum(w["cycles"] for w in found_board["windows"]) == len(expected)


def test_a_board_shows_the_latest_per_market_wallets_and_windows() -> None:
    events: list[Event] = [
        summary("gpu", 0, 4, queued=3),
        summary("gpu", 1, None, queued=9),
        summary("gpu", 3, 6),
        price("gpu", 3, 6),
        balance("a", 300_000, 4),
        balance("a", 0, 1),
    ]
    found = shown(events)
    latest = found["markets"]["gpu"]["latest"]
    assert (latest["cycle"], latest["reference_price_micro"], latest["jobs_queued"]) == (3, 6, 1)
    assert latest["pool_prices_micro"] == {"p": 6}
    assert latest["occupancy_ppm"] == 800_003
    assert found["markets"]["gpu"]["price"]["cycle"] == 3
    assert found["teams"]["a"]["wallet_micro"] == 4
    assert [document["cycle"] for document in found["cycles"]] == [0, 1, 3]
    assert found["windows"] == [
        {
            "market": "gpu",
            "start_ms": 0,
            "end_ms": 180_000,
            "cycles": 2,
            "least_price_micro": 4,
            "greatest_price_micro": 4,
            "mean_occupancy_ppm": 800_000,
            "most_jobs_queued": 9,
        },
        {
            "market": "gpu",
            "start_ms": 180_000,
            "end_ms": 360_000,
            "cycles": 1,
            "least_price_micro": 6,
            "greatest_price_micro": 6,
            "mean_occupancy_ppm": 800_003,
            "most_jobs_queued": 1,
        },
    ]


def test_a_jump_of_the_cycle_number_costs_no_walk_over_what_never_was() -> None:
    tables = Tables(history_cycles=3)
    keep_cycle(tables, summary("gpu", 1))
    keep_cycle(tables, summary("gpu", 60_000_000))
    assert list(tables.cycles) == [("gpu", 60_000_000)]
    assert len(tables.windows) == 1


def test_an_adding_fold_is_found_out_by_the_same_property() -> None:
    total: dict[str, int] = {}
    for event in [summary("gpu", 1), summary("gpu", 1)]:
        total[event.market] = total.get(event.market, 0) + event.allocated_macc
    assert total["gpu"] != summary("gpu", 1).allocated_macc


@pytest.mark.parametrize(
    ("time_ms", "expected"), [(0, (0, 600)), (599, (0, 600)), (600, (600, 1200))]
)
def test_windows_are_half_open_and_do_not_overlap(time_ms: int, expected: tuple[int, int]) -> None:
    assert window_of(time_ms, 600) == expected
