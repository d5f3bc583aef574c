"""Feeds the board from the views service's HTTP answers."""

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Self

import aiohttp
from pydantic import ValidationError

from walras.board import BoardState
from walras_contracts.registry import BY_TYPE

PERIOD_S = 0.5


class BoardFeed:
    """Polls ``/v1/board`` of the views and puts the answer into a board state.

    A silent service leaves the board as it was; the replay does not depend on it.
    """

    def __init__(self, port: int, state: BoardState) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/board"
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
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValidationError):
                    async with session.get(self._url) as response:
                        if response.status == 200:
                            apply_board(self._state, await response.json())
                await asyncio.sleep(PERIOD_S)


def apply_board(state: BoardState, answer: dict[str, Any]) -> None:
    """Take an answer of the views: events by type, as they stand on the topics."""
    for item in answer.get("events", []):
        model = BY_TYPE.get(item["type"])
        if model is not None:
            state.apply_event(model.model_validate(item["data"], strict=False))
