import io
from random import Random

import pytest
from rich.console import Console

from walras.board import Board, BoardState, plain_line, render
from walras_contracts.demand import JobCancelled
from walras_contracts.event import Event
from walras_contracts.market import (
    CycleSummarised,
    MarketQuota,
    MarketState,
    PoolPrice,
    PricePublished,
    QuotaGranted,
)
from walras_contracts.money import BalancePublished

START = 1_616_544_000_000
MARKETS = ("a100-80gb", "h100-80gb", "v100-32gb")
POOLS = tuple(f"c{number:02d}" for number in range(1, 11))


def _prices(price: int) -> tuple[PoolPrice, ...]:
    return tuple(
        PoolPrice(pool=pool, price_micro=price, weight_micro_per_hour=1, local_income_per_hour=1)
        for pool in POOLS
    )


def _events(cycle: int) -> list[Event]:
    time_ms = START + cycle * 60_000
    events: list[Event] = []
    for number, market in enumerate(MARKETS):
        price = 1_000_000 * number + 10_000 * cycle
        events.append(
            PricePublished(
                market=market,
                cycle=cycle,
                market_time_ms=time_ms,
                reference_price_micro=price,
                pools=_prices(price // 2),
            )
        )
        events.append(
            CycleSummarised(
                market=market,
                cycle=cycle,
                market_time_ms=time_ms,
                state=MarketState.CLEARED,
                reference_price_micro=price,
                pool_prices=_prices(price // 2),
                supply_macc=400_000,
                demand_macc=500_500,
                allocated_macc=399_500,
                opportunistic_macc=500,
                jobs_queued=30 + number,
                jobs_running=1200,
                revenue_micro_per_hour=5,
                occupancy_ppm=990_000,
            )
        )
    for pool in POOLS:
        for team in ("a", "b", "c"):
            events.append(
                QuotaGranted(
                    team=f"{pool}-{team}",
                    pool=pool,
                    cycle=cycle,
                    market_time_ms=time_ms,
                    markets=(
                        MarketQuota(
                            market=MARKETS[0],
                            allocated_macc=13_300,
                            opportunistic_macc=100,
                            price_micro=1,
                        ),
                    ),
                )
            )
            events.append(
                BalancePublished(
                    team=f"{pool}-{team}",
                    pool=pool,
                    boundary_ms=time_ms,
                    wallet_micro=12_345_000_000 + ord(team),
                    earned_micro=0,
                    spent_micro=0,
                    credited_micro=0,
                    expired_micro=0,
                )
            )
    return events


def _state(cycles: int = 100, total: int = 1440) -> BoardState:
    state = BoardState("One week of ten clusters", seed=1, hours=24, total_cycles=total)
    state.phase = "replaying"
    for cycle in range(1, cycles + 1):
        for event in _events(cycle):
            state.apply_event(event)
    state.elapsed_s = 10.0
    return state


def _drawn(state: BoardState, width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(render(state, width))
    return out.getvalue().splitlines()


def test_the_board_fits_eighty_columns_and_twenty_four_rows() -> None:
    lines = _drawn(_state(), 80, 24)
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]


@pytest.mark.parametrize("width", [80, 110, 200])
def test_the_board_names_every_market_and_pool_with_price_quota_and_wallet(width: int) -> None:
    text = "\n".join(_drawn(_state(), width, 40))
    for name in (*MARKETS, *POOLS):
        assert name in text
    for words in ("cycle 100 / 1,440", "99.0 %", "2:14 to go", "39.9", "37,035", "1,200", "500.5"):
        assert words in text, words
    assert ("c10-c 12,345" in text) == (width >= 100)


def test_an_empty_board_draws() -> None:
    state = BoardState("Nothing yet", seed=1, hours=2, total_cycles=120)
    assert any("cycle 0 / 120" in line for line in _drawn(state, 80, 24))
    assert plain_line(state) == "cycle 0/120 · – · starting"


def test_events_of_one_cycle_may_come_in_any_order() -> None:
    expected = _state(3)
    for seed in range(5):
        state = BoardState(expected.title, seed=1, hours=24, total_cycles=1440)
        state.phase, state.elapsed_s = expected.phase, expected.elapsed_s
        for cycle in range(1, 4):
            events = _events(cycle)
            Random(seed).shuffle(events)
            for event in events:
                state.apply_event(event)
        assert state == expected, f"seed {seed}"


def test_an_older_price_does_not_take_the_place_of_a_newer_one() -> None:
    state = _state(3)
    for event in _events(2):
        if isinstance(event, PricePublished | CycleSummarised):
            state.apply_event(event)
    market = state.markets[MARKETS[1]]
    assert (market.cycle, market.reference_micro) == (3, 1_030_000)
    assert market.pool_prices["c01"] == 515_000
    assert list(market.history) == [1_010_000, 1_020_000, 1_030_000]


def test_other_events_are_ignored() -> None:
    state = _state(2)
    state.apply_event(JobCancelled(team="t", job="j"))
    assert state == _state(2)


def test_the_time_to_go_follows_the_mean_speed() -> None:
    state = _state(100, total=400)
    state.elapsed_s = 20.0
    assert state.remaining_s() == pytest.approx(60.0)
    state.cycle = 0
    assert state.remaining_s() is None


def test_without_a_terminal_a_line_is_printed_every_n_cycles_and_at_the_end() -> None:
    out = io.StringIO()
    state = BoardState("t", seed=1, hours=24, total_cycles=200)
    with Board(state, Console(file=out, force_terminal=False, width=40), plain_every=60) as board:
        for cycle in range(1, 201):
            for event in _events(cycle):
                state.apply_event(event)
            board.update()
    lines = out.getvalue().splitlines()
    assert [line.split(" ")[1] for line in lines] == [
        "1/200",
        "60/200",
        "120/200",
        "180/200",
        "200/200",
    ]
    assert "\x1b" not in out.getvalue()


def test_without_a_terminal_a_new_phase_is_told_at_once() -> None:
    out = io.StringIO()
    state = BoardState("t", seed=1, hours=2, total_cycles=120)
    with Board(state, Console(file=out, force_terminal=False)) as board:
        for phase in ("starting Kafka", "starting Kafka", "creating topics"):
            state.phase = phase
            board.update()
    assert [line.split(" · ")[2] for line in out.getvalue().splitlines()] == [
        "starting Kafka",
        "creating topics",
    ]


def test_on_a_terminal_it_draws_as_often_as_told_and_not_more() -> None:
    out = io.StringIO()
    now_s = [0.0]
    state = _state(1)
    console = Console(file=out, force_terminal=True, width=100, height=40)
    with Board(state, console, frames_per_second=4, clock=lambda: now_s[0]) as board:
        sizes = []
        for step in range(8):
            now_s[0] = step / 8
            state.cycle += 1
            board.update()
            sizes.append(len(out.getvalue()))
    drawn = sum(after > before for before, after in zip([0, *sizes], sizes, strict=False))
    assert drawn == 4


def test_the_terminal_is_given_back_when_the_caller_fails() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40)

    def fail() -> None:
        with Board(_state(1), console):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert out.getvalue().count(hide) == out.getvalue().count(show) == 1
    assert out.getvalue().rstrip().endswith(show)


def test_a_halted_market_says_so() -> None:
    state = _state(1)
    state.markets[MARKETS[0]].state = "halted"
    assert any("a100-80gb (halted)" in line for line in _drawn(state, 110, 40))
