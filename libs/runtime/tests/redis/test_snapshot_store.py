"""The store in Redis against its twin in memory, and what it refuses."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from walras_launcher.redis import RedisServer
from walras_launcher.running import Redis
from walras_runtime.memory.snapshot_store import MemoryServer, MemorySnapshotStore
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, known_logs, open_redis
from walras_runtime.redis.versioned import (
    Outcome,
    Presence,
    Stamp,
    StoreCorruptError,
    StoreUnavailableError,
    Versioned,
    WriteResult,
)

pytestmark = pytest.mark.broker

NUMBERS = itertools.count()
LOGS = ("cluster.1", "cluster.2")
STAMPS = st.builds(Stamp, st.integers(0, 3), st.integers(-1, 2), st.integers(0, 2)) | st.builds(
    Stamp, st.just(2**53 - 1), st.sampled_from([2**53 - 2, 2**53 - 1]), st.just(2**53 - 1)
)
FIELDS = st.dictionaries(
    st.sampled_from(["body", "published", "third"]),
    st.binary(max_size=6) | st.just(b"\r\n$-1\r\n"),
    min_size=1,
)


@pytest.fixture
def namespace() -> str:
    return f"test-{next(NUMBERS)}"


def on_redis(url: str, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with open_redis(url) as client:
            return await use(client)

    return asyncio.run(run())


def machine(url: str, twin_type: type[MemorySnapshotStore]) -> type[RuleBasedStateMachine]:
    class Twins(RuleBasedStateMachine):
        """Every answer of Redis and of the memory is the same, whatever was written before."""

        @initialize()
        def open(self) -> None:
            self.runner = asyncio.Runner()
            self.context = open_redis(url)
            self.client = self.runner.run(self.context.__aenter__())
            self.namespace = f"twins-{next(NUMBERS)}"
            self.server = MemoryServer()
            self.redis = {
                log: RedisSnapshotStore(self.client, log, "value", namespace=self.namespace)
                for log in LOGS
            }
            self.memory = {log: twin_type(self.server, log, "value") for log in LOGS}

        @rule(log=st.sampled_from(LOGS), stamp=STAMPS, fields=FIELDS)
        def write(self, log: str, stamp: Stamp, fields: dict[str, bytes]) -> None:
            value = Versioned(stamp, fields)
            real = self.runner.run(self.redis[log].write(value))
            assert real == self.runner.run(self.memory[log].write(value))

        @rule(log=st.sampled_from(LOGS))
        def read(self, log: str) -> None:
            assert self.runner.run(self.redis[log].read()) == self.runner.run(
                self.memory[log].read()
            )

        @rule(log=st.sampled_from(LOGS), stamp=STAMPS)
        def presence(self, log: str, stamp: Stamp) -> None:
            assert self.runner.run(self.redis[log].presence(stamp)) == self.runner.run(
                self.memory[log].presence(stamp)
            )

        @rule()
        def logs(self) -> None:
            known = self.runner.run(known_logs(self.client, self.namespace))
            assert known == self.server.known_logs()

        @rule()
        def wipe(self) -> None:
            keys = [store.key for store in self.redis.values()]

            async def delete() -> None:
                await self.client.delete(*keys, f"{self.namespace}:logs")

            self.runner.run(delete())
            self.server.wipe()

        def teardown(self) -> None:
            if hasattr(self, "runner"):
                self.runner.run(self.context.__aexit__(None, None, None))
                self.runner.close()

    return Twins


MACHINE_SETTINGS = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_redis_and_memory_agree_on_every_answer(redis_server: Redis) -> None:
    run_state_machine_as_test(
        machine(redis_server.url, MemorySnapshotStore), settings=MACHINE_SETTINGS
    )


class LastWriterWins(MemorySnapshotStore):
    """The store that the compare-and-set is there to prevent."""

    async def write(self, value: Versioned) -> WriteResult:
        self._server.values[self._key] = value
        return WriteResult(Outcome.WRITTEN, value.stamp)


def test_a_store_without_compare_and_set_is_found_out(redis_server: Redis) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine(redis_server.url, LastWriterWins),
            settings=settings(
                MACHINE_SETTINGS, print_blob=False, phases=[Phase.generate], database=None
            ),
        )


@pytest.mark.parametrize("stale", [Stamp(1, 9, 9), Stamp(2, 4, 9), Stamp(2, 5, 6)])
def test_a_stale_writer_is_refused_with_a_value_and_changes_nothing(
    redis_server: Redis, namespace: str, stale: Stamp
) -> None:
    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        newest = Versioned(Stamp(2, 5, 7), {"body": b"newest"})
        assert (await store.write(newest)).outcome == Outcome.WRITTEN
        result = await store.write(Versioned(stale, {"body": b"late", "more": b"x"}))
        assert result == WriteResult(Outcome.STALE, newest.stamp)
        assert await store.read() == newest

    on_redis(redis_server.url, run)


def test_a_wipe_is_noticed_and_the_same_bytes_can_be_put_back(
    redis_server: Redis, namespace: str
) -> None:
    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        value = Versioned(Stamp(1, 1, 6), {"body": b"\x00\xff", "published": b"1"})
        await store.write(value)
        assert await store.presence(value.stamp) == Presence.CURRENT
        assert await store.presence(Stamp(1, 1, 7)) == Presence.BEHIND
        assert await store.presence(Stamp(1, 1, 5)) == Presence.AHEAD
        await client.delete(store.key)
        assert await store.presence(value.stamp) == Presence.EMPTY
        assert await store.read() is None
        assert (await store.write(value)).outcome == Outcome.WRITTEN
        assert await store.read() == value

    on_redis(redis_server.url, run)


async def leave(client: Any, key: str, damage: str) -> None:
    """Leave under a key something that is not a stamped value."""
    right: dict[str | bytes, bytes] = {
        "~epoch": b"9",
        "~number": b"9",
        "~step": b"9",
        "body": b"x",
    }
    wrong: dict[str, dict[str | bytes, bytes]] = {
        "no stamp": {"body": b"x"},
        "half a stamp": {"~epoch": b"9", "~step": b"9", "body": b"x"},
        "no number": {**right, "~number": b"nine"},
        "a fraction": {**right, "~step": b"9.5"},
        "an exponent": {**right, "~epoch": b"1e3"},
        "a hexadecimal": {**right, "~epoch": b"0x9"},
        "infinity": {**right, "~epoch": b"inf"},
        "beyond the range": {**right, "~epoch": b"%d" % 2**53},
        "below the range": {**right, "~epoch": b"-2"},
        "no field": {name: right[name] for name in ("~epoch", "~number", "~step")},
        "a name that is not text": {"~epoch": b"9", b"\xff": b"x", "body": b"x"},
    }
    if damage in wrong:
        await client.hset(key, mapping=wrong[damage])
    else:
        await {"a string": client.set, "a list": client.rpush}[damage](key, b"{}")


DAMAGES = (
    *("no stamp", "half a stamp", "no number", "a fraction", "an exponent", "a hexadecimal"),
    *("infinity", "beyond the range", "below the range", "no field", "a name that is not text"),
    *("a string", "a list"),
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_a_stamped_value_is_corrupt_to_readers_and_absent_to_writers(
    redis_server: Redis, namespace: str, damage: str
) -> None:
    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        value = Versioned(Stamp(1, 1, 1), {"body": b"right"})
        await leave(client, store.key, damage)
        with pytest.raises(StoreCorruptError):
            await store.read()
        # Told as absent, so that the projector, which looks now and then, puts it right.
        assert await store.presence(value.stamp) == Presence.EMPTY
        assert await store.write(value) == WriteResult(Outcome.WRITTEN, value.stamp)
        assert await store.read() == value
        assert await store.presence(value.stamp) == Presence.CURRENT

    on_redis(redis_server.url, run)


def test_a_damaged_list_of_logs_is_corrupt_to_readers_and_put_right_by_the_next_write(
    redis_server: Redis, namespace: str
) -> None:
    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        await client.set(f"{namespace}:logs", b"x")
        with pytest.raises(StoreCorruptError):
            await known_logs(client, namespace)
        value = Versioned(Stamp(1, 1, 1), {"body": b"right"})
        assert (await store.write(value)).outcome == Outcome.WRITTEN
        assert await known_logs(client, namespace) == ["log"]
        await client.delete(f"{namespace}:logs")
        await client.set(f"{namespace}:logs", b"x")
        assert (await store.write(value)).outcome == Outcome.REPEATED
        assert await known_logs(client, namespace) == ["log"]
        await client.sadd(f"{namespace}:logs", b"\xff")
        with pytest.raises(StoreCorruptError):
            await known_logs(client, namespace)

    on_redis(redis_server.url, run)


def test_a_read_only_redis_is_unavailable_and_works_again_afterwards(
    own_redis: Callable[[], RedisServer], namespace: str
) -> None:
    server = own_redis()

    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        value = Versioned(Stamp(1, 1, 1), {"body": b"x"})
        # A replica of a master that is not there refuses writes.
        await client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailableError) as refused:
            await store.write(value)
        assert refused.value.retriable
        await client.replicaof("NO", "ONE")
        assert (await store.write(value)).outcome == Outcome.WRITTEN

    on_redis(server.url, run)


def test_a_killed_redis_is_unavailable_and_comes_back_empty(
    own_redis: Callable[[], RedisServer], namespace: str
) -> None:
    server = own_redis()

    async def run(client: Any) -> None:
        store = RedisSnapshotStore(client, "log", "value", namespace=namespace)
        value = Versioned(Stamp(1, 1, 1), {"body": b"x"})
        await store.write(value)
        await asyncio.to_thread(server.kill)
        for attempt in (store.read(), store.write(value), store.presence(value.stamp)):
            with pytest.raises(StoreUnavailableError):
                await attempt
        with pytest.raises(StoreUnavailableError):
            await known_logs(client, namespace)
        await asyncio.to_thread(server.restart)
        assert await store.presence(value.stamp) == Presence.EMPTY
        assert (await store.write(value)).outcome == Outcome.WRITTEN

    on_redis(server.url, run)


@pytest.mark.parametrize("name", ["", "~epoch"])
def test_a_field_name_that_belongs_to_the_store_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="field name"):
        Versioned(Stamp(1, 1, 1), {name: b"x"})


@pytest.mark.parametrize("value", [-2, 2**53])
def test_a_stamp_that_redis_could_not_compare_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        Stamp(value, 0, 0)
