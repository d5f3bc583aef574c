"""The board over HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from walras_views.core import board
from walras_views.state import Tables

CYCLES_DEFAULT: Final = 60


@asynccontextmanager
async def serve_board(tables: Tables, host: str, port: int) -> AsyncIterator[int]:
    """Serve ``GET /v1/board?cycles=N`` at an address of this machine; yield the port."""

    async def answer(request: web.Request) -> web.Response:
        asked = request.query.get("cycles", str(CYCLES_DEFAULT))
        if not (asked.isascii() and asked.isdigit() and 0 < int(asked) <= tables.history_cycles):
            reason = {
                "code": "out_of_range",
                "field": "cycles",
                "reason": f"must be a whole number from 1 to {tables.history_cycles}",
            }
            return web.json_response(reason, status=400)
        body = json.dumps(board(tables, int(asked)), sort_keys=True)
        return web.Response(text=body, content_type="application/json")

    app = web.Application()
    app.add_routes([web.get("/v1/board", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
