"""Poison, repetition, a wiped Redis, Ctrl-C: the market goes on, and leaves nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from tests.e2e.disturbances import kill_server, snapshot_body, until
from walras.demo.run import Running
from walras_contracts.topics import load_topics
from walras_runtime.kafka.log_reading import read_all

Report = dict[str, Any]
RunMarket = Callable[..., Report]

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
POISON = bytes.fromhex("00ff7b")


def test_redis_killed_and_wiped_in_the_middle_is_rebuilt_to_the_same_bytes(
    run_market: RunMarket, undisturbed: Report
) -> None:
    bodies: list[bytes] = []
    log: list[str] = []

    async def inspect(running: Running) -> None:
        before = await snapshot_body(running, running.replay.cycles)
        # Once more with nothing moving: the projector alone must put it back.
        await asyncio.to_thread(running.redis.kill)
        await asyncio.to_thread(running.redis.restart)
        bodies.extend([before, await snapshot_body(running, running.replay.cycles)])

    report = run_market(disturb=kill_server("redis", (15, 30), 3, log), inspect=inspect)
    assert log == ["killed redis", "restarted redis"] * 2
    assert report["digests"] == undisturbed["digests"]
    assert bodies[0] == bodies[1]


def test_poison_goes_where_it_belongs_and_changes_no_decision(
    run_market: RunMarket, undisturbed: Report
) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    coordinates: dict[str, tuple[str, int, int]] = {}

    async def disturb(running: Running) -> None:
        await until(lambda: running.cycle >= 20, 120)
        topics = load_topics(1)
        producer = AIOKafkaProducer(bootstrap_servers=running.broker.bootstrap)
        await producer.start()
        outside = [("ce_id", b"poison"), ("ce_source", b"test")]
        for name, kind in (
            ("demand", "walras.job.submitted.v1"),
            ("queue", "walras.job.queued.v1"),
        ):
            sent = await producer.send_and_wait(
                topics[name].full_name,
                POISON,
                key=b"poison",
                partition=0,
                headers=[*outside, ("ce_type", kind.encode())],
            )
            coordinates[name] = (name, sent.partition, sent.offset)
        await producer.stop()
        await asyncio.Event().wait()

    async def inspect(running: Running) -> None:
        topics = load_topics(1)
        for name in ("demand.rejected", "dead_letter"):
            messages = await read_all(running.broker.bootstrap, topics[name].full_name, [0])
            found[name] = [json.loads(m.value) for m in messages]

    report = run_market(disturb=disturb, inspect=inspect)
    assert report["digests"] == undisturbed["digests"]
    rejected = [(r["topic"], r["partition"], r["offset"]) for r in found["demand.rejected"]]
    assert rejected == [coordinates["demand"]]
    letters = {
        r["service"]: (r["topic"], r["partition"], r["offset"]) for r in found["dead_letter"]
    }
    assert letters == {"clearing": coordinates["queue"], "placement": coordinates["queue"]}


@pytest.mark.slow
def test_intake_told_every_event_twice_decides_the_same(
    run_market: RunMarket, undisturbed: Report
) -> None:
    report = run_market(copies=2)
    assert report["digests"] == undisturbed["digests"]
    assert report["jobs"]["submitted"] == undisturbed["jobs"]["submitted"]


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below a process, with their start times."""
    children: dict[int, list[int]] = {}
    started: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        started[int(entry.name)] = fields[19]
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found[child] = started[child]
            todo.append(child)
    return found


def alive(pid: int, started: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[19] == started and fields[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "sigkill"])
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "run"
    with (tmp_path / "demo.log").open("wb") as log:
        demo = subprocess.Popen(
            [sys.executable, "-m", "walras", "demo", "--hours", "24", "--out", str(out)],
            cwd=REPOSITORY,
            stdout=log,
            stderr=log,
            env={k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")},
        )
    deadline = time.monotonic() + 120
    while b"replaying" not in (tmp_path / "demo.log").read_bytes():
        assert demo.poll() is None, (tmp_path / "demo.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    below = descendants(demo.pid)
    assert len(below) >= 10
    demo.send_signal(number)
    code = demo.wait(60)
    assert code == (130 if number is signal.SIGINT else -number)
    deadline = time.monotonic() + 30
    while left := [pid for pid, started in below.items() if alive(pid, started)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
