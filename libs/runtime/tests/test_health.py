"""Health over real HTTP on loopback."""

import json

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from walras_runtime.health import Health, serve_health
from walras_runtime.telemetry import Telemetry


async def get(port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


@pytest.mark.asyncio
async def test_health_is_green_until_a_part_has_a_fault_and_again_when_it_is_cleared() -> None:
    health = Health(details={"partition": "0"})
    async with serve_health(health, CollectorRegistry(), 0) as port:
        assert port is not None
        status, body = await get(port, "/healthz")
        assert (status, json.loads(body)) == (
            200,
            {"healthy": True, "faults": {}, "details": {"partition": "0"}},
        )
        health.fail("echo/0", "offset_gap: 30..39")
        status, body = await get(port, "/healthz")
        assert (status, json.loads(body)["faults"]) == (503, {"echo/0": "offset_gap: 30..39"})
        health.clear("echo/0")
        assert (await get(port, "/healthz"))[0] == 200


@pytest.mark.asyncio
async def test_ready_means_set_with_no_part_waiting_and_no_fault() -> None:
    health = Health()
    async with serve_health(health, CollectorRegistry(), 0) as port:
        assert port is not None
        assert await get(port, "/readyz") == (503, '{"ready": false}')
        health.ready = True
        assert await get(port, "/readyz") == (200, '{"ready": true}')
        health.waiting.add("echo/1")
        assert (await get(port, "/readyz"))[0] == 503
        health.waiting.clear()
        health.fail("echo/0", "broken")
        assert (await get(port, "/readyz"))[0] == 503


@pytest.mark.asyncio
async def test_metrics_are_served_and_other_paths_are_not() -> None:
    telemetry = Telemetry("echo")
    telemetry.steps.labels("0").inc(3)
    async with serve_health(Health(), telemetry.registry, 0) as port:
        assert port is not None
        status, body = await get(port, "/metrics")
        assert status == 200
        assert 'walras_steps_total{partition="0"} 3.0' in body
        assert (await get(port, "/other"))[0] == 404


@pytest.mark.asyncio
async def test_without_a_port_nothing_is_served() -> None:
    async with serve_health(Health(), CollectorRegistry(), -1) as port:
        assert port is None
