"""Feeds the board from the views service's HTTP answers."""

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from walras.board import BoardState, MarketView

PERIOD_S = 0.5


class BoardFeed:
    """Polls ``/v1/board`` of the views and puts the answer into a board state.

    A silent service leaves the board as it was; the replay does not depend on it.
    """

    def __init__(self, port: int, state: BoardState) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/board?cycles=1"
        self._state = state
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start to poll."""
        self._task = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop to poll."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _poll(self) -> None:
        timeout = aiohttp.ClientTimeout(total=2.0)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(self._url) as response:
                        if response.status == 200:
                            apply_board(self._state, await response.json())
                await asyncio.sleep(PERIOD_S)


def apply_board(state: BoardState, answer: Mapping[str, Any]) -> None:
    """Take an answer of the views (``services/views/README.md``) into the board's state."""
    for name, shown in answer["markets"].items():
        latest = shown["latest"]
        if latest is None:
            continue
        market = state.markets.setdefault(name, MarketView(name))
        prices = latest["pool_prices_micro"]
        if not market.take(latest["cycle"], latest["reference_price_micro"], prices):
            continue
        market.state = latest["state"]
        market.supply_macc, market.demand_macc = latest["supply_macc"], latest["demand_macc"]
        market.allocated_macc = latest["allocated_macc"]
        market.opportunistic_macc = latest["opportunistic_macc"]
        market.jobs_queued, market.jobs_running = latest["jobs_queued"], latest["jobs_running"]
        market.occupancy_ppm = latest["occupancy_ppm"]
    for team, wallet in answer["teams"].items():
        state.wallets.setdefault(wallet["pool"], {})[team] = wallet["wallet_micro"]
    for team, quota in answer["quotas"].items():
        state.quotas.setdefault(quota["pool"], {})[team] = (
            quota["allocated_macc"],
            quota["opportunistic_macc"],
        )
