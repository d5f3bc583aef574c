"""The agent as a process on a real broker: leases and drains in, usage and statuses out."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from services.node_agent.tests.agent_rig import FAST, JOB, NODE, ROOT, check_usage
from services.node_agent.tests.lives import command
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommanded
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import decode_inner
from walras_contracts.runs import RunSpec
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)
from walras_launcher.kafka import KafkaBroker
from walras_node_agent.host.machine import with_variable
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import (
    BarrierMark,
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.records import Barrier, Output, emit, tombstone

pytestmark = [
    pytest.mark.broker,
]
PATIENCE_S = 120.0
POLL_S = 0.1
T = TypeVar("T")
TOPICS = load_topics()


class Market:
    """Stands for placement and drain: writes their records, reads what the agent tells."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._barrier = 0

    @classmethod
    @asynccontextmanager
    async def opened(cls, bootstrap: str) -> AsyncIterator["Market"]:
        await create_topics(bootstrap, TOPICS)
        yield cls(bootstrap)

    async def write(self, *outputs: Output) -> None:
        """Write records and the next barrier of their topics, in one transaction."""
        rows: dict[tuple[str, int], list[Row]] = {}
        for output in outputs:
            topic = TOPICS[output.topic]
            place = (topic.full_name, partition_of(output.partition_key, topic.partitions))
            headers = event_headers(f"test/{self._barrier}", b"test", output.type)
            rows.setdefault(place, []).append((output.key.encode(), output.payload, headers))
        barrier = Barrier(self._barrier, self._barrier * 5_000)
        self._barrier += 1
        mark: Row = (
            barrier.key(cyclic=True).encode(),
            barrier_value(barrier),
            barrier_headers(1),
        )
        for name in ("leases", "drain.commands"):
            for partition in range(TOPICS[name].partitions):
                rows.setdefault((TOPICS[name].full_name, partition), []).append(mark)
        producer = make_producer(self.bootstrap, transactional_id="test-market")
        await producer.start()
        try:
            await producer.begin_transaction()
            await send_rows(producer, rows)
            await producer.commit_transaction()
        finally:
            await producer.stop()

    async def told(self, model: type[Event]) -> list[Event]:
        """Return what was told, in order of each partition."""
        topic = TOPICS[model.TOPIC]
        found = []
        for message in await read_all(self.bootstrap, topic.full_name, range(topic.partitions)):
            parsed = parse_message(message, topic.name)
            if not isinstance(parsed, BarrierMark) and parsed.value is not None:
                found.append(decode_inner(parsed.type, parsed.value))
        return found

    async def statuses(self, lease: str) -> list[tuple[str, str]]:
        events = await self.told(LeaseStatusChanged)
        return [
            (e.state.value, e.outcome.value)
            for e in events
            if isinstance(e, LeaseStatusChanged) and e.lease == lease
        ]

    async def usage(self, lease: str) -> list[UsageMetered]:
        events = await self.told(UsageMetered)
        mine = [e for e in events if isinstance(e, UsageMetered) and e.lease == lease]
        return sorted(mine, key=lambda u: u.seq)


class AgentProcess:
    """The agent of the node, as it is run."""

    def __init__(self, bootstrap: str, directory: Path, state: str = "state") -> None:
        self.directory = directory
        self.log = directory / f"{state}.log"
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
        paths = [str(path) for path in (ROOT, *sys.path) if path]
        self._environment = {
            **clean,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "WALRAS_KAFKA_BOOTSTRAP": bootstrap,
            "WALRAS_TRANSACTION_TIMEOUT_MS": "3000",
            "WALRAS_NODE_AGENT_NODE": NODE,
            "WALRAS_NODE_AGENT_STATE_DIRECTORY": str(directory / state),
            "WALRAS_NODE_AGENT_CHECKPOINT_DIRECTORY": str(directory / "checkpoints"),
            **{f"WALRAS_NODE_AGENT_{name}": value for name, value in FAST.items()},
        }
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "walras_node_agent.agent"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill_and_start(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for lease in ("l1", "l2", "l3"):
            control = self.directory / "state" / "parts" / lease / "control"
            for pid in with_variable("WALRAS_CONTROL_DIR", str(control)):
                os.kill(pid, signal.SIGKILL)

    def say(self, lease: str, name: str) -> None:
        (self.directory / "checkpoints" / "t1" / lease / name).touch()


def granted(
    lease: str, behaviour: str, device: int, work_class: WorkClass = WorkClass.MARKET
) -> Output:
    return emit(
        LeaseGranted(
            lease=lease,
            node=NODE,
            part=0,
            parts=1,
            attempt=1,
            job=lease,
            team="t1",
            pool="p",
            market="a",
            work_class=work_class,
            devices=(device,),
            size_macc=1000,
            limit_micro=None,
            granted_ms=0,
            remaining_run_ms=None,
            drainability=Drainability.CHECKPOINT,
            run=RunSpec(command=(sys.executable, str(JOB), behaviour)),
        )
    )


async def until(look: Callable[[], object], what: str, agent: AgentProcess) -> None:
    """Poll until a coroutine's answer is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = look()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        text = agent.log.read_text("utf-8", "replace")
        assert agent.process.poll() is None, f"the agent ended: {text}"
        assert time.monotonic() < deadline, f"not in time: {what}\n{text[-4000:]}"
        await asyncio.sleep(POLL_S)


def ends_with(market: Market, lease: str, *states: str) -> Callable[[], object]:
    async def look() -> bool:
        told = [state for state, _ in await market.statuses(lease)]
        return told[-len(states) :] == list(states)

    return look


def in_order(told: Sequence[tuple[str, str]]) -> list[str]:
    """States without repetitions: what was on its way in a crash may be told again."""
    order: list[str] = []
    for state, _ in told:
        if state not in order:
            order.append(state)
    return order


def test_leases_run_are_metered_and_drained_and_a_killed_broker_loses_nothing(
    tmp_path: Path, own_broker: Callable[[], KafkaBroker]
) -> None:
    broker = own_broker()

    async def work() -> None:
        async with Market.opened(broker.bootstrap) as market:
            agent = AgentProcess(broker.bootstrap, tmp_path)
            try:
                await the_story(broker, market, agent)
            finally:
                agent.close()

    asyncio.run(work())


async def the_story(broker: KafkaBroker, market: Market, agent: AgentProcess) -> None:
    await until(lambda: market.told(NodeHealthReported), "a heartbeat", agent)

    await market.write(granted("l1", "polite", 0), granted("l2", "quits", 1))
    await until(ends_with(market, "l1", "accepted", "running"), "l1 running", agent)
    await until(ends_with(market, "l2", "accepted", "running"), "l2 running", agent)

    # A change of class cuts use: it flows.
    await market.write(granted("l1", "polite", 0, WorkClass.OPPORTUNISTIC))
    await until(lambda: market.usage("l1"), "usage", agent)
    assert (await market.usage("l1"))[0].work_class is WorkClass.MARKET

    # The broker dies; a job ends meanwhile, and the agent, too.
    broker.kill()
    agent.say("l2", "quit")
    gone = agent.directory / "state" / "parts" / "l2" / "gone.json"
    await until(gone.exists, "the end of l2", agent)
    agent.kill_and_start()
    broker.restart()
    await until(ends_with(market, "l2", "freed"), "l2 freed", agent)
    assert in_order(await market.statuses("l2")) == ["accepted", "running", "freed"]
    assert (await market.statuses("l2"))[-1] == ("freed", "finished")
    check_usage(await market.usage("l2"))

    told = command(lease="l1", node=NODE).model_copy(update={"warning_ms": 60_000})
    await market.write(emit(told), tombstone(LeaseGranted, f"l2/{NODE}", NODE))
    await until(ends_with(market, "l1", "freed"), "l1 freed", agent)
    assert (await market.statuses("l1"))[-1] == ("freed", "vacated")
    drains = [e for e in await market.told(DrainStatusChanged) if isinstance(e, DrainStatusChanged)]
    assert drains[0].state.value == "warned"
    assert drains[-1].state.value == "freed"
    usage = await market.usage("l1")
    check_usage(usage)
    assert [u.work_class.value for u in usage][-1] == "overhang"

    await market.write(
        tombstone(LeaseGranted, f"l1/{NODE}", NODE),
        tombstone(DrainCommanded, f"l1/{NODE}", NODE),
    )
    parts = agent.directory / "state" / "parts"
    await until(lambda: not list(parts.iterdir()), "both leases forgotten", agent)


def test_another_agent_of_the_same_node_takes_over_and_the_first_one_ends(
    tmp_path: Path, own_broker: Callable[[], KafkaBroker]
) -> None:
    broker = own_broker()

    async def work() -> None:
        async with Market.opened(broker.bootstrap) as market:
            first = AgentProcess(broker.bootstrap, tmp_path)
            await until(lambda: market.told(NodeHealthReported), "a heartbeat", first)
            second = AgentProcess(broker.bootstrap, tmp_path, "elsewhere")
            try:
                await until(lambda: first.process.poll() is not None, "the end", second)
                assert first.process.returncode == 3
                assert "is claimed by" in first.log.read_text("utf-8")
            finally:
                first.close()
                second.close()

    asyncio.run(work())
