"""The board over HTTP."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession

from walras_views.state import Tables
from walras_views.web import serve_board


def asked(query: str) -> tuple[int, Any]:
    async def run() -> tuple[int, Any]:
        async with (
            serve_board(Tables(history_cycles=100), 0) as port,
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/v1/board{query}") as response,
        ):
            return response.status, await response.json()

    return asyncio.run(run())


def test_an_empty_market_has_an_empty_board() -> None:
    assert asked("") == (
        200,
        {"markets": {}, "teams": {}, "quotas": {}, "cycles": [], "windows": []},
    )
    assert asked("?cycles=100")[0] == 200


@pytest.mark.parametrize("asked_for", ["0", "101", "-1", "x", ""])
def test_a_wrong_number_of_cycles_is_refused_with_a_code(asked_for: str) -> None:
    status, answer = asked(f"?cycles={asked_for}")
    assert status == 400
    assert (answer["code"], answer["field"]) == ("out_of_range", "cycles")
