"""Health, readiness and metrics of a process over HTTP on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(slots=True)
class Health:
    """What a process says of itself: faults by part, and whether it is ready to work.

    It is ready when ``ready`` is set, no part is ``waiting`` and none has a fault.
    """

    faults: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    details: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)

    def fail(self, part: str, reason: str) -> None:
        """Turn a part red."""
        self.faults[part] = reason

    def clear(self, part: str) -> None:
        """Turn a part green again."""
        self.faults.pop(part, None)


@asynccontextmanager
async def serve_health(
    health: Health, registry: CollectorRegistry, port: int
) -> AsyncIterator[int | None]:
    """Serve /healthz, /readyz, /metrics; yield the port, None where ``port`` is -1."""
    if port < 0:
        yield None
        return
    # A third of the time that a service takes to start; most are started without a port.
    from aiohttp import web  # noqa: PLC0415

    async def healthz(_: "web.Request") -> "web.Response":
        body = {"healthy": not health.faults, "faults": health.faults, "details": health.details}
        return web.Response(
            text=json.dumps(body),
            status=503 if health.faults else 200,
            content_type="application/json",
        )

    async def readyz(_: "web.Request") -> "web.Response":
        ready = health.ready and not health.faults and not health.waiting
        return web.Response(text=json.dumps({"ready": ready}), status=200 if ready else 503)

    async def metrics(_: "web.Request") -> "web.Response":
        return web.Response(body=generate_latest(registry), content_type="text/plain")

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
