"""What the projector does about a store that is empty, away, or ahead."""

import asyncio

import pytest
from structlog.testing import capture_logs

from walras_runtime.health import Health
from walras_runtime.memory.snapshot_store import MemoryServer, MemorySnapshotStore
from walras_runtime.redis.versioned import Outcome, Presence
from walras_snapshot.projection import Snapshot
from walras_snapshot.publisher import REMINDER_MS, Publisher


def snapshot(barrier: int, epoch: int = 1, body: bytes = b"{}") -> Snapshot:
    return Snapshot(epoch, barrier, barrier, barrier * 1000, body)


class Scene:
    def __init__(self) -> None:
        self.server = MemoryServer()
        self.store = MemorySnapshotStore(self.server, "log", "snapshot")
        self.health = Health()
        self.publisher = Publisher(self.health)

    def publish(self, value: Snapshot, now_ms: int = 0) -> bool:
        return asyncio.run(self.publisher.publish(self.store, value, now_ms))

    def check(self, value: Snapshot, now_ms: int = 0) -> Presence | None:
        return asyncio.run(self.publisher.check(self.store, value, now_ms))

    def held(self) -> bytes | None:
        value = asyncio.run(self.store.read())
        return None if value is None else value.fields["body"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_empty_store_is_rewritten_from_memory(scene: Scene) -> None:
    last = snapshot(3, body=b'{"barrier":3}')
    scene.publish(last)
    scene.server.wipe()
    assert scene.check(last) == Presence.EMPTY
    assert scene.held() == last.body
    assert scene.publisher.rewritten == 1
    assert scene.check(last) == Presence.CURRENT


def test_a_store_put_back_from_an_old_copy_is_rewritten(scene: Scene) -> None:
    scene.publish(snapshot(3, body=b"old"))
    old = dict(scene.server.values)
    scene.publish(snapshot(4, body=b"new"))
    scene.server.values.update(old)
    assert scene.check(snapshot(4, body=b"new")) == Presence.BEHIND
    assert scene.held() == b"new"


def test_an_outage_turns_the_health_red_until_the_snapshot_is_there_again(scene: Scene) -> None:
    scene.server.away = True
    assert not scene.publish(snapshot(1))
    assert "store_unavailable" in scene.health.faults["redis"]
    assert scene.check(snapshot(2)) is None
    scene.server.away = False
    scene.server.wipe()
    assert scene.check(snapshot(2, body=b"two")) == Presence.EMPTY
    assert scene.health.faults == {}
    assert scene.held() == b"two"


def test_an_outage_is_logged_once_a_minute(scene: Scene) -> None:
    scene.server.away = True
    with capture_logs() as logged:
        for now_ms in range(0, 3 * REMINDER_MS, 2_000):
            scene.check(snapshot(1), now_ms)
    assert [entry["event"] for entry in logged].count("snapshot_not_published") == 3


def test_a_stale_writer_says_so_and_leaves_the_newer_value(scene: Scene) -> None:
    scene.publish(snapshot(9, epoch=2, body=b"new leader"))
    old = Publisher(scene.health)
    assert asyncio.run(old.publish(scene.store, snapshot(10, epoch=1), 0))
    assert old.outcomes == {Outcome.STALE: 1}
    assert "stale_writer" in scene.health.faults["redis"]
    assert scene.held() == b"new leader"
    assert asyncio.run(old.check(scene.store, snapshot(10, epoch=1), 0)) == Presence.AHEAD
    assert scene.held() == b"new leader"
