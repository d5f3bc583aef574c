"""The board shows what the views answer."""

from walras.board import BoardState
from walras.demo.feed import apply_board
from walras_contracts.market import (
    CycleSummarised,
    MarketQuota,
    MarketState,
    PoolPrice,
    QuotaGranted,
)
from walras_contracts.money import BalancePublished
from walras_views.core import board, keep_cycle, keep_quota, keep_wallet
from walras_views.state import Tables

SUMMARY = CycleSummarised(
    market="a100",
    cycle=7,
    market_time_ms=420_000,
    state=MarketState.CLEARED,
    reference_price_micro=1_500_000,
    pool_prices=(
        PoolPrice(
            pool="blue", price_micro=900_000, weight_micro_per_hour=1, local_income_per_hour=1
        ),
    ),
    supply_macc=8_000,
    demand_macc=9_000,
    allocated_macc=6_000,
    opportunistic_macc=1_000,
    jobs_queued=4,
    jobs_running=3,
    revenue_micro_per_hour=5,
    occupancy_ppm=875_000,
)


def test_an_answer_of_the_views_fills_the_board_as_the_events_would() -> None:
    quota = QuotaGranted(
        team="t1",
        pool="blue",
        cycle=7,
        market_time_ms=420_000,
        markets=(
            MarketQuota(
                market="a100", allocated_macc=6_000, opportunistic_macc=1_000, price_micro=900_000
            ),
        ),
    )
    balance = BalancePublished(
        team="t1",
        pool="blue",
        boundary_ms=300_000,
        wallet_micro=77,
        earned_micro=80,
        spent_micro=3,
        credited_micro=0,
        expired_micro=0,
    )
    tables = Tables()
    keep_cycle(tables, SUMMARY)
    keep_quota(tables, quota)
    keep_wallet(tables, balance)
    fed = BoardState(title="t", seed=1, hours=1, total_cycles=60)
    apply_board(fed, board(tables, 1))
    told = BoardState(title="t", seed=1, hours=1, total_cycles=60)
    for event in (SUMMARY, quota, balance):
        told.apply_event(event)
    assert fed.markets == told.markets
    assert fed.wallets == told.wallets
    assert fed.quotas == told.quotas
