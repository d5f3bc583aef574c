"""Where a Docker engine answers: the pinned images serve as the launcher's servers do."""

import asyncio
import re
from pathlib import Path

import pytest
from testcontainers.community.redis import RedisContainer

from walras_runtime.redis.snapshot_store import RedisSnapshotStore, open_redis
from walras_runtime.redis.versioned import Outcome, Stamp, Versioned

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker_engine")]

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"


def pinned(name: str) -> str:
    """Return the image that the compose file pins."""
    found = re.search(rf"image: ({re.escape(name)}:\S+)", COMPOSE.read_text("utf-8"))
    assert found is not None
    return found.group(1)


async def stale_is_refused(url: str) -> list[Outcome]:
    fields = {"body": b"x"}
    async with open_redis(url, timeout_ms=5_000) as client:
        store = RedisSnapshotStore(client, "cluster.1", "snapshot")
        stamps = (Stamp(2, 5, 5), Stamp(1, 9, 9))
        return [(await store.write(Versioned(stamp, fields))).outcome for stamp in stamps]


def test_the_pinned_redis_refuses_a_stale_writer() -> None:
    with RedisContainer(pinned("redis")) as redis:
        url = f"redis://{redis.get_container_host_ip()}:{redis.get_exposed_port(6379)}/0"
        outcomes = asyncio.run(stale_is_refused(url))
    assert outcomes == [Outcome.WRITTEN, Outcome.STALE]
