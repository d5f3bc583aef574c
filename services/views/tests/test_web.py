"""The board over HTTP."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession

from walras_views.settings import Settings
from walras_views.state import Tables
from walras_views.web import serve_board


def asked(query: str) -> tuple[int, Any]:
    async def run() -> tuple[int, Any]:
        async with (
            serve_board(Tables(history_cycles=100), "127.0.0.1", 0) as port,
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


def reached(host: str, asked_at: str) -> bool:
    """Whether a board that is served at one address answers at another one."""

    async def run() -> bool:
        async with (
            serve_board(Tables(history_cycles=1), host, 0) as port,
            ClientSession() as session,
        ):
            try:
                async with session.get(f"http://{asked_at}:{port}/v1/board?cycles=1") as response:
                    return response.status == 200
            except ClientConnectionError:
                return False

    return asyncio.run(run())


def test_the_board_is_on_loopback_unless_it_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WALRAS_VIEWS_KAFKA_BOOTSTRAP", "nowhere:1")
    assert Settings.read().http_host == "127.0.0.1"
    monkeypatch.setenv("WALRAS_VIEWS_HTTP_HOST", "0.0.0.0")
    everywhere = Settings.read().http_host
    # Another address of this machine than the one that the default serves.
    assert not reached("127.0.0.1", "127.0.0.2")
    assert reached(everywhere, "127.0.0.2")
