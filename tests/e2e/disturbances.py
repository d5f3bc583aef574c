"""What tests do to a running market, and what they see of it."""

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from aiokafka import TopicPartition

from walras.demo.run import Running
from walras_client.redis_source import STORE_NAME
from walras_contracts.topics import load_topics
from walras_runtime.kafka.claims import Claim, read_claim
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.redis.log_id import read_log_id
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, open_redis

Disturbance = Callable[[Running], Coroutine[Any, Any, None]]


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition lies in another process
            await asyncio.sleep(0.05)


async def claim_of(running: Running, service: str) -> Claim:
    """Return who leads a service."""
    topic = load_topics()["claims"].full_name
    async with plain_consumer(running.broker.bootstrap) as consumer:
        return await read_claim(consumer, topic, service, 0)


async def leader_of(running: Running, service: str) -> str:
    """Return the label of the replica that leads a service, by the pid in its claim."""
    async with asyncio.timeout(60):
        while True:
            claim = await claim_of(running, service)
            for name in running.supervisor.names():
                if claim.incarnation.startswith(f"{running.supervisor.pid(name)}-"):
                    return name
            await asyncio.sleep(0.1)


def kill_leader(service: str, every_s: float, every_cycles: int, log: list[str]) -> Disturbance:
    """Kill the leader with SIGKILL every ``every_s`` seconds or ``every_cycles`` cycles."""

    async def disturb(running: Running) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            since, cycle = clock(), running.cycle
            await until(
                lambda since=since, cycle=cycle: (  # type: ignore[misc]
                    clock() - since >= every_s or running.cycle >= cycle + every_cycles
                ),
                every_s + 30,
            )
            name = await leader_of(running, service)
            running.supervisor.kill(name)
            log.append(f"cycle {running.cycle}: killed {name}")

    return disturb


def kill_at_random(
    names: Sequence[str], chooser: random.Random, most_cycles: int, log: list[str]
) -> Disturbance:
    """Kill one of the named services after each random number of cycles: each once at first."""

    async def disturb(running: Running) -> None:
        first = chooser.sample(names, len(names))
        while True:
            target = running.cycle + chooser.randint(1, most_cycles)
            await until(lambda target=target: running.cycle >= target, 120)  # type: ignore[misc]
            name = first.pop() if first else chooser.choice(names)
            running.supervisor.kill(name)
            log.append(f"cycle {running.cycle}: killed {name}")

    return disturb


def kill_server(
    what: Literal["broker", "redis"], at_cycles: Sequence[int], dead_cycles: int, log: list[str]
) -> Disturbance:
    """Kill broker or Redis at each of the cycles, and start it again ``dead_cycles`` later."""

    async def disturb(running: Running) -> None:
        server = running.broker if what == "broker" else running.redis
        for target in at_cycles:
            await until(lambda target=target: running.cycle >= target, 120)  # type: ignore[misc]
            await asyncio.to_thread(server.kill)
            log.append(f"killed {what}")
            back = running.cycle + dead_cycles
            await until(lambda back=back: running.cycle >= back, 120)  # type: ignore[misc]
            await asyncio.to_thread(server.restart)
            log.append(f"restarted {what}")
            print(f"{what}: killed and restarted, cycles {back - dead_cycles} to {running.cycle}")

    return disturb


def freeze_leader(service: str, at_cycle: int, log: list[Any]) -> Disturbance:
    """Stop the leader, wait until a standby has claimed and worked, then let it go on."""

    async def disturb(running: Running) -> None:
        await until(lambda: running.cycle >= at_cycle, 120)
        name = await leader_of(running, service)
        frozen = await claim_of(running, service)
        pid = running.supervisor.pid(name)
        os.kill(pid, signal.SIGSTOP)
        log.append(f"cycle {running.cycle}: stopped {name}")
        try:
            async with asyncio.timeout(90):
                while (await claim_of(running, service)).epoch == frozen.epoch:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            cycle = running.cycle
            await until(lambda: running.cycle > cycle, 60)
        finally:
            os.kill(pid, signal.SIGCONT)
        log.append(f"cycle {running.cycle}: let {name} go on")
        await until(lambda: (name, 3) in running.supervisor.exits, 60)
        log.append((name, 3))

    return disturb


async def epochs_of_barriers(bootstrap: str, topic: str) -> dict[int, set[bytes]]:
    """Return for each barrier number of a topic the epochs that wrote it, read_committed."""
    registry = load_topics(1)[topic]
    found: dict[int, set[bytes]] = {}
    async with plain_consumer(bootstrap) as consumer:
        tps = [TopicPartition(registry.full_name, p) for p in range(registry.partitions)]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        for tp in tps:
            consumer.seek(tp, 0)
        while any([await consumer.position(tp) < ends[tp] for tp in tps]):
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                for message in messages:
                    if message.key.startswith(b"~barrier/"):
                        number = json.loads(message.value)["barrier"]
                        epoch = dict(message.headers)["walras_epoch"]
                        found.setdefault(number, set()).add(epoch)
    return found


async def snapshot_body(running: Running, barrier: int) -> bytes:
    """Return the body of the snapshot once it shows a barrier."""
    topics = load_topics(1)
    log_id = await read_log_id(running.broker.bootstrap, topics["cycles"].full_name)
    assert log_id is not None
    async with asyncio.timeout(60), open_redis(running.redis.url, timeout_ms=2_000) as client:
        while True:
            value = await RedisSnapshotStore(client, log_id, STORE_NAME).read()
            if value is not None and value.stamp.step >= barrier:
                return value.fields["body"]
            await asyncio.sleep(0.1)
