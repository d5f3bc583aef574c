"""A live board in the terminal: how far the replay is, what each market costs, who owns what.

The caller feeds a :class:`BoardState`; the board only draws it. Without a terminal it prints one
plain line every so many cycles instead.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from walras_contracts.event import Event
from walras_contracts.market import CycleSummarised, PoolPrice, PricePublished, QuotaGranted
from walras_contracts.money import BalancePublished

MICRO: Final = 1_000_000
MACC: Final = 1000
SPARKS: Final = "▁▂▃▄▅▆▇█"
HISTORY: Final = 16
WIDE: Final = 100
"""Columns from which the price history and the richest teams are shown."""
TOP_TEAMS: Final = 2
NONE: Final = "–"


@dataclass(slots=True)
class MarketView:
    """What the newest summary and price of a market say."""

    market: str
    cycle: int = -1
    state: str = ""
    reference_micro: int | None = None
    pool_prices: dict[str, int | None] = field(default_factory=dict)
    supply_macc: int = 0
    demand_macc: int = 0
    allocated_macc: int = 0
    opportunistic_macc: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
    occupancy_ppm: int = 0
    history: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def take(
        self, cycle: int, reference_micro: int | None, pool_prices: Mapping[str, int | None]
    ) -> bool:
        """Take the prices of a cycle; return False where a newer cycle is known already."""
        if cycle < self.cycle:
            return False
        if cycle > self.cycle:
            self.history.append(reference_micro or 0)
        self.cycle, self.reference_micro = cycle, reference_micro
        self.pool_prices = dict(pool_prices)
        return True


def _by_pool(pools: Iterable[PoolPrice]) -> dict[str, int | None]:
    return {pool.pool: pool.price_micro for pool in pools}


@dataclass(slots=True)
class BoardState:
    """All that the board shows. Fields may be set directly; events may come in any order.

    ``total_cycles`` is the number of the last cycle; ``elapsed_s`` the wall-clock time of the
    replay so far, as the caller measures it.
    """

    title: str
    seed: int
    hours: int
    total_cycles: int
    elapsed_s: float = 0.0
    phase: str = "starting"
    cycle: int = 0
    market_time_ms: int = 0
    markets: dict[str, MarketView] = field(default_factory=dict)
    wallets: dict[str, dict[str, int]] = field(default_factory=dict)
    """Wallet in µcr by pool and team."""
    quotas: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Allocated and opportunistic macc over all markets, by pool and team."""

    def apply_event(self, event: Event) -> None:
        """Take an event of ``cycles``, ``prices``, ``quotas`` or ``balances``; ignore others."""
        match event:
            case CycleSummarised():
                self._summary(event)
            case PricePublished():
                market = self._market(event.market)
                market.take(event.cycle, event.reference_price_micro, _by_pool(event.pools))
            case QuotaGranted():
                self.quotas.setdefault(event.pool, {})[event.team] = (
                    sum(market.allocated_macc for market in event.markets),
                    sum(market.opportunistic_macc for market in event.markets),
                )
            case BalancePublished():
                self.wallets.setdefault(event.pool, {})[event.team] = event.wallet_micro
            case _:
                pass

    def _market(self, market: str) -> MarketView:
        return self.markets.setdefault(market, MarketView(market))

    def _summary(self, event: CycleSummarised) -> None:
        market = self._market(event.market)
        prices = _by_pool(event.pool_prices)
        if not market.take(event.cycle, event.reference_price_micro, prices):
            return
        market.state = event.state.value
        market.supply_macc, market.demand_macc = event.supply_macc, event.demand_macc
        market.allocated_macc = event.allocated_macc
        market.opportunistic_macc = event.opportunistic_macc
        market.jobs_queued, market.jobs_running = event.jobs_queued, event.jobs_running
        market.occupancy_ppm = event.occupancy_ppm
        self.cycle = max(self.cycle, event.cycle)
        self.market_time_ms = max(self.market_time_ms, event.market_time_ms)

    def pools(self) -> list[str]:
        """Return all pools seen so far, sorted."""
        priced = {pool for market in self.markets.values() for pool in market.pool_prices}
        return sorted(priced | self.wallets.keys() | self.quotas.keys())

    def remaining_s(self) -> float | None:
        """Return the wall-clock time to go at the mean speed so far; None before there is one."""
        if self.cycle <= 0 or self.elapsed_s <= 0:
            return None
        return max(0, self.total_cycles - self.cycle) * self.elapsed_s / self.cycle

    def occupancy_ppm(self) -> int | None:
        """Return the occupancy of all markets, weighted by supply."""
        supply = sum(market.supply_macc for market in self.markets.values())
        if not supply:
            return None
        occupied = sum(m.occupancy_ppm * m.supply_macc for m in self.markets.values())
        return occupied // supply


class Board:
    """Draws a state: live on a terminal, as plain lines elsewhere.

    Use as a context manager and call :meth:`update` whenever the state changed; it draws at most
    ``frames_per_second`` times a second, so calling it for every cycle costs nothing.
    """

    def __init__(
        self,
        state: BoardState,
        console: Console | None = None,
        *,
        plain_every: int = 60,
        frames_per_second: float = 4.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = state
        self._console = console or Console()
        self._plain_every = plain_every
        self._period_s = 1.0 / frames_per_second
        self._clock = clock
        self._drawn_s = float("-inf")
        self._plain_due = 0
        self._phase = ""
        self._printed = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Take over the terminal, if there is one."""
        if self._console.is_terminal:
            self._live = Live(
                self._render(), console=self._console, auto_refresh=False, transient=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draw once more and give the terminal back, whatever happened."""
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
            self._live.stop()
            self._live = None
        else:
            self._print(plain_line(self.state))

    def update(self) -> None:
        """Show the state as it is now."""
        if self._live is None:
            self._plain()
            return
        now_s = self._clock()
        if now_s - self._drawn_s >= self._period_s:
            self._drawn_s = now_s
            self._live.update(self._render(), refresh=True)

    def _plain(self) -> None:
        state = self.state
        if state.phase != self._phase or state.cycle >= self._plain_due:
            self._phase = state.phase
            self._plain_due = (state.cycle // self._plain_every + 1) * self._plain_every
            self._print(plain_line(state))

    def _print(self, line: str) -> None:
        if line != self._printed:
            self._printed = line
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        return render(self.state, self._console.width)


def plain_line(state: BoardState) -> str:
    """Return the state in one line, for logs and pipes."""
    prices = ", ".join(
        f"{name} {_credits(market.reference_micro)}"
        for name, market in sorted(state.markets.items())
    )
    waiting = sum(market.jobs_queued for market in state.markets.values())
    running = sum(market.jobs_running for market in state.markets.values())
    words = [
        f"cycle {state.cycle}/{state.total_cycles}",
        _moment(state.market_time_ms),
        state.phase,
    ]
    if state.markets:
        words += [
            f"price {prices} cr/acc·h",
            f"occupancy {_percent(state.occupancy_ppm())}",
            f"{waiting} waiting, {running} running",
        ]
    if (left_s := state.remaining_s()) is not None and state.cycle < state.total_cycles:
        words.append(f"{_clock_time(left_s)} to go")
    return " · ".join(words)


def render(state: BoardState, width: int = WIDE) -> RenderableType:
    """Return the whole board for a terminal of this width; it fits 80 columns by 24 rows."""
    wide = width >= WIDE
    return Group(_header(state), _markets(state, wide=wide), "", _pools(state, wide=wide))


def _header(state: BoardState) -> RenderableType:
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    share = 100 * state.cycle // max(1, state.total_cycles)
    left_s = state.remaining_s()
    left = "" if left_s is None else f" · {_clock_time(left_s)} to go"
    bar.add_row(
        Text(f"cycle {state.cycle:,} / {state.total_cycles:,}", style="bold"),
        ProgressBar(total=max(1, state.total_cycles), completed=state.cycle),
        Text(f"{share:3d} % · {_clock_time(state.elapsed_s)}{left}"),
    )
    facts = Text.assemble(
        (f"{_moment(state.market_time_ms)}", "bold"),
        f" · {state.hours} h · seed {state.seed} · occupancy ",
        (_percent(state.occupancy_ppm()), "bold green"),
        f" · {state.phase}",
    )
    return Panel(
        Group(bar, facts),
        title=f"[bold]Walras[/] · {state.title}",
        title_align="left",
        border_style="blue",
    )


def _table(*columns: str) -> Table:
    """Return a table whose first column is words and whose others are numbers."""
    table = Table(
        expand=True,
        box=SIMPLE_HEAD,
        show_edge=False,
        border_style="bright_black",
        header_style="bold",
    )
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    return table


def _markets(state: BoardState, *, wide: bool) -> Table:
    table = _table("market", "cr/acc·h", "supply", "demand", "quota", "free", "used", "run", "wait")
    if wide:
        table.add_column("price, last cycles", no_wrap=True, min_width=HISTORY)
    for name, market in sorted(state.markets.items()):
        cells: list[str | Text] = [
            name if market.state in {"", "cleared"} else f"{name} ({market.state})",
            Text(_credits(market.reference_micro), style="bold yellow"),
            _accelerators(market.supply_macc),
            _accelerators(market.demand_macc),
            _accelerators(market.allocated_macc),
            _accelerators(market.opportunistic_macc),
            Text(_percent(market.occupancy_ppm), style="green"),
            f"{market.jobs_running:,}",
            f"{market.jobs_queued:,}",
        ]
        if wide:
            cells.append(Text(_spark(market.history), style="yellow"))
        table.add_row(*cells)
    return table


def _pools(state: BoardState, *, wide: bool) -> Table:
    names = sorted(state.markets)
    table = _table("pool", *names, "quota", "free", "wallet cr")
    if wide:
        table.add_column("richest teams", no_wrap=True, overflow="ellipsis")
    for pool in state.pools():
        quotas = state.quotas.get(pool, {}).values()
        wallets = state.wallets.get(pool, {})
        prices = (state.markets[name].pool_prices.get(pool) for name in names)
        cells: list[str | Text] = [
            pool,
            *(Text(_credits(price), style="yellow") for price in prices),
            _accelerators(sum(allocated for allocated, _ in quotas)) if quotas else NONE,
            _accelerators(sum(free for _, free in quotas)) if quotas else NONE,
            f"{sum(wallets.values()) // MICRO:,}" if wallets else NONE,
        ]
        if wide:
            richest = sorted(wallets.items(), key=lambda item: (-item[1], item[0]))[:TOP_TEAMS]
            cells.append(", ".join(f"{team} {wallet // MICRO:,}" for team, wallet in richest))
        table.add_row(*cells)
    return table


def _spark(values: deque[int]) -> str:
    peak = max(values, default=0)
    if not peak:
        return SPARKS[0] * len(values)
    return "".join(SPARKS[value * (len(SPARKS) - 1) // peak] for value in values)


def _credits(micro: int | None) -> str:
    return NONE if micro is None else f"{micro / MICRO:,.2f}"


def _accelerators(macc: int) -> str:
    whole, rest = divmod(macc, MACC)
    return f"{whole:,}.{rest // 100}" if rest else f"{whole:,}"


def _percent(ppm: int | None) -> str:
    return NONE if ppm is None else f"{ppm / 10_000:.1f} %"


def _moment(time_ms: int) -> str:
    if not time_ms:
        return NONE
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%a %Y-%m-%d %H:%M")


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
