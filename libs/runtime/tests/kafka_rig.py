"""What the tests of the loop on a real broker share: topics, feeding, processes, the checker."""

import asyncio
import os
import signal
import string
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry

from libs.runtime.tests.echo_service import Settings, registry, service_of, spec
from walras_launcher.process import kill, spawn
from walras_runtime.errors import WalrasError
from walras_runtime.health import Health
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.kafka.claims import Claim, read_claim
from walras_runtime.kafka.log_reading import plain_consumer, read_all
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Barrier, Output, Record
from walras_runtime.service import run_stages
from walras_runtime.telemetry import Telemetry

ECHO = Path(__file__).with_name("echo_service.py")
PATIENCE_S = 60.0
"""Upper bound of every wait; far above what an idle machine needs."""
POLL_S = 0.02
INTERVAL_MS = 5_000

Item = Record | BarrierMark
Row = tuple[int, bytes]
"""Partition and value of an input record."""


def new_space() -> str:
    """Return letters that no other run on the broker has."""
    return "".join(string.ascii_lowercase[byte % 26] for byte in os.urandom(10))


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll until a condition holds; fail the test when it does not in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(POLL_S)


def state_of(pid: int) -> str:
    """Return the state of a process as the kernel's letter."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]


class Follower:
    """Reads the output topic as a read_committed consumer would, and keeps what it saw."""

    def __init__(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        self._consumer = consumer
        self.items: dict[int, list[Item]] = {tp.partition: [] for tp in partitions}

    async def poll(self) -> None:
        for tp, messages in (await self._consumer.getmany(timeout_ms=100)).items():
            self.items[tp.partition] += [parse_message(m, "out") for m in messages]

    def last_barrier(self, partition: int) -> int:
        marks = [i.barrier.number for i in self.items[partition] if isinstance(i, BarrierMark)]
        return max(marks, default=-1)

    async def until(self, barrier: int, partitions: Sequence[int] = (0, 1)) -> Self:
        """Read until all partitions show a barrier."""

        async def there() -> bool:
            await self.poll()
            return all(self.last_barrier(p) >= barrier for p in partitions)

        await eventually(there, f"barrier {barrier} on the output topic")
        return self


class Echo:
    """An echo service as a process."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        kill(self.process)

    async def exit_code(self) -> int:
        """Wait for the end."""

        async def ended() -> bool:
            return self.process.poll() is not None

        await eventually(ended, f"end of the process; its log:\n{self.text()}")
        return self.process.returncode

    def text(self) -> str:
        return self.log.read_text("utf-8") if self.log.exists() else ""

    async def says(self, words: str) -> None:
        """Wait for words in its log."""

        async def said() -> bool:
            assert self.process.poll() is None or words in self.text(), self.text()
            return words in self.text()

        await eventually(said, f"{words!r} in the log")

    async def stopped(self) -> None:
        """Wait until it was stopped by SIGSTOP."""

        async def halted() -> bool:
            return state_of(self.process.pid) == "T"

        await eventually(halted, "the process to be stopped")


class InProcess:
    """The stages of this process, started as a service would."""

    def __init__(self, telemetry: Telemetry, health: Health) -> None:
        self.stop = asyncio.Event()
        self.telemetry = telemetry
        self.health = health
        self.task: asyncio.Task[None] | None = None

    def metric(self, name: str, **labels: str) -> float:
        registry: CollectorRegistry = self.telemetry.registry
        return registry.get_sample_value(name, labels) or 0.0

    async def red(self) -> str:
        """Wait for a fault; return all faults as text."""

        async def fault() -> bool:
            return bool(self.health.faults)

        await eventually(fault, "a fault")
        return "; ".join(f"{part}: {why}" for part, why in sorted(self.health.faults.items()))


class Rig:
    """One echo service with topics of its own on a broker."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.space = new_space()
        self.topics = registry(self.space)
        self.service = service_of(self.space)
        self.fed: list[Row] = []
        self.next_barrier = 0
        self._directory = directory
        self._echoes: list[Echo] = []

    @classmethod
    @asynccontextmanager
    async def opened(cls, bootstrap: str, directory: Path) -> AsyncIterator[Self]:
        """Make the topics; afterwards end what still runs."""
        rig = cls(bootstrap, directory)
        await create_topics(bootstrap, rig.topics)
        try:
            yield rig
        finally:
            for echo in rig._echoes:
                echo.kill()

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[BarrierWriter]:
        async with BarrierWriter(self.bootstrap, self.topics) as writer:
            await writer.last_barrier()
            yield writer

    async def feed(
        self, writer: BarrierWriter, rows: Sequence[Row] | None = None, *, event_type: str = "t.v1"
    ) -> None:
        """Write the records of one step, three a partition unless given, and its barrier."""
        n = self.next_barrier
        if rows is None:
            rows = [(p, b"%d-%d-%d" % (n, p, i)) for p in (0, 1) for i in range(3)]
        outputs = [Output("in", f"k{p}", "", event_type, value, p) for p, value in rows]
        await writer.write(Barrier(n, n * INTERVAL_MS), outputs)
        self.fed += rows
        self.next_barrier = n + 1

    async def feed_steps(self, steps: int) -> None:
        async with self.writer() as writer:
            for _ in range(steps):
                await self.feed(writer)

    def start_echo(self, *, spread: bool = False, **environment: str) -> Echo:
        log = self._directory / f"echo-{self.space}-{len(self._echoes)}.log"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WALRAS_", "ECHO_"))}
        process = spawn(
            [sys.executable, str(ECHO)],
            log=log,
            directory=self._directory,
            environment={
                **clean,
                "WALRAS_KAFKA_BOOTSTRAP": self.bootstrap,
                "WALRAS_MODE": "replay",
                "WALRAS_ELECTION_SESSION_MS": "1000",
                "WALRAS_ECHO_SPREAD": str(spread),
                "ECHO_SPACE": self.space,
                **environment,
            },
        )
        echo = Echo(process, log)
        self._echoes.append(echo)
        return echo

    @asynccontextmanager
    async def running(
        self,
        *,
        spread: bool = True,
        raw: bool = True,
        lagged: bool = False,
        traced: Telemetry | None = None,
        **settings: Any,
    ) -> AsyncIterator[InProcess]:
        """Run the stages in this process."""
        here = InProcess(traced or Telemetry("echo"), Health())
        values = {"mode": "replay", "spread": spread, **settings}
        here.task = asyncio.create_task(
            run_stages(
                spec(spread=spread, space=self.space, raw=raw, lagged=lagged),
                Settings.read(kafka_bootstrap=self.bootstrap, **values),
                here.stop,
                here.telemetry,
                here.health,
                topics=self.topics,
            )
        )
        try:
            yield here
        finally:
            here.stop.set()
            await here.task

    async def failure(self, *, spread: bool = True) -> BaseException:
        """Run the stages in this process until they break; return how."""
        found: list[BaseException] = []
        try:
            async with self.running(spread=spread, election_session_ms=1000) as echo:
                assert echo.task is not None
                await asyncio.wait({echo.task}, timeout=PATIENCE_S)
                assert echo.task.done(), "still running"
        except (WalrasError, ExceptionGroup) as error:
            found.append(error)
        assert found, "ended without an error"
        return found[0]

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[Follower]:
        async with plain_consumer(self.bootstrap) as consumer:
            tps = [TopicPartition(self.topics["out"].full_name, p) for p in (0, 1)]
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            yield Follower(consumer, tps)

    async def committed(self) -> dict[int, list[Item]]:
        """Return what a reader of the output topic sees now."""
        return {
            p: [
                parse_message(m, "out")
                for m in await read_all(self.bootstrap, self.topics["out"].full_name, [p])
            ]
            for p in (0, 1)
        }

    async def claim(self, partition: int = 0) -> Claim:
        async with plain_consumer(self.bootstrap) as consumer:
            return await read_claim(
                consumer, self.topics["claims"].full_name, self.service, partition
            )

    def check(self, seen: dict[int, list[Item]], *, spread: bool) -> None:
        """Check that every input came out exactly once, in order, before its own barrier."""
        check_exactly_once(self.fed, seen, last=self.next_barrier - 1, spread=spread)


def check_exactly_once(
    fed: Sequence[Row], seen: dict[int, list[Item]], *, last: int, spread: bool
) -> None:
    """Check an echo's output against its input."""
    counts: dict[int, list[int]] = {}
    for partition, items in seen.items():
        marks = [item for item in items if isinstance(item, BarrierMark)]
        assert [m.barrier.number for m in marks] == list(range(last + 1)), f"barriers {partition}"
        epochs = [mark.epoch for mark in marks]
        assert epochs == sorted(epochs), f"an older owner wrote after a newer one: {epochs}"
        bodies = [item.value or b"" for item in items if isinstance(item, Record)]
        values = [body.partition(b":")[2] for body in bodies]
        wanted = [value for p, value in fed if p == partition]
        assert values == wanted, f"partition {partition}: {len(values)} of {len(wanted)}"
        counts[partition] = [int(body.partition(b":")[0]) for body in bodies]
    if spread:
        for partition, held in counts.items():
            assert held == list(range(1, len(held) + 1)), f"counts of {partition}"
    else:
        together = sorted(count for held in counts.values() for count in held)
        assert together == list(range(1, len(fed) + 1)), "counts"
