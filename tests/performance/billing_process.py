"""Billing, or what it is compared with, as a process on a broker of its own; the bench feeds it."""

import asyncio
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.performance.billing_workload import BillingWorkload, partition_of_team
from tests.performance.machine import ROOT
from tests.performance.outside import (
    BenchError,
    CommitWatch,
    Outside,
    Rows,
    commit_watch,
    looker,
    outside,
)
from tests.performance.process_time import cpu_seconds, one_core_and_the_rest, pin
from walras.processes import Service, Supervisor
from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_contracts.charges import ChargeRated
from walras_contracts.topics import Topic, load_topics
from walras_launcher import start_kafka
from walras_launcher.kafka import Jit
from walras_launcher.ports import PortReservation
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import event_headers
from walras_runtime.records import Output

PYTHON_PATH = {"PYTHONPATH": str(ROOT)}
BILLING = Service("billing", "walras_billing")
COPY = Service("billing_copy", "tests.performance.billing_copy", PYTHON_PATH)
NOOP = Service("billing_noop", "tests.performance.billing_noop", PYTHON_PATH)
SOURCE = b"walras/bench"
READY_POLL_S = 0.02
READY_WITHIN_S = 600.0
ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Running:
    """A process under test on its broker, alone on a core; made by :func:`running`."""

    bootstrap: str
    broker_pid: int
    topics: Mapping[str, Topic]
    supervisor: Supervisor
    service: Service
    port: int
    writer: Outside
    watch: CommitWatch

    @property
    def pids(self) -> dict[str, int]:
        """Process ids for a meter."""
        return {"service": self.supervisor.pid(self.service.name), "broker": self.broker_pid}

    async def feed(self, workload: BillingWorkload, number: int, leases: range) -> None:
        """Write the prices of a minute, the use of some leases in it, and its barrier."""
        await self.writer.events(workload.prices(number))
        for first in range(leases.start, leases.stop, ROWS_AT_ONCE):
            part = range(first, min(leases.stop, first + ROWS_AT_ONCE))
            await self.write(workload.usage(number, part))
        await self.end_step(workload, number)

    async def write(self, outputs: Iterable[Output]) -> None:
        """Write records."""
        rows: Rows = {}
        for index, output in enumerate(outputs):
            topic = self.topics[output.topic]
            partition = partition_of_team(output.partition_key, topic.partitions)
            headers = event_headers(f"bench/{index}", SOURCE, output.type)
            rows.setdefault((topic.full_name, partition), []).append(
                (output.key.encode(), output.payload, headers)
            )
        await self.writer.write(rows)

    async def end_step(self, workload: BillingWorkload, number: int) -> None:
        """Write a barrier into all that billing reads."""
        await self.writer.barrier(workload.barrier(number), input_topics())

    async def ready(self) -> tuple[float, float]:
        """Wait until the process is ready; return the seconds from now, and its CPU seconds.

        Raises
        ------
        BenchError
            It ended, or does not become ready.
        """
        began, look = perf_counter(), looker(self.supervisor)
        while not await asyncio.to_thread(_answers, f"http://127.0.0.1:{self.port}/readyz"):
            look()
            if perf_counter() - began > READY_WITHIN_S:
                raise BenchError(f"{self.service.name} does not become ready")
            await asyncio.sleep(READY_POLL_S)
        return perf_counter() - began, cpu_seconds(self.pids["service"])


def input_topics() -> list[str]:
    """Return the topics that billing waits for."""
    return [source.topic for source in build(Settings(kafka_bootstrap="none")).inputs]


@asynccontextmanager
async def running(service: Service, jit: Jit) -> AsyncIterator[Running]:
    """Start a broker and the process, which gets a core of its own; stop them at the end.

    What is watched is ``charges``.
    """
    topics = load_topics()
    one, rest = one_core_and_the_rest()
    before = os.sched_getaffinity(0)
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(PortReservation()).port
        broker = stack.enter_context(start_kafka(jit=jit))
        await create_topics(broker.bootstrap, topics)
        shared = {"WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap, "WALRAS_MODE": "replay"}
        shared["WALRAS_BILLING_HEALTH_PORT"] = str(port)
        supervisor = Supervisor([service], shared, logs)
        stack.callback(supervisor.stop)
        supervisor.start()
        pin(broker.pid, rest)
        pin(supervisor.pid(service.name), one)
        stack.callback(pin, os.getpid(), before)
        pin(os.getpid(), rest)
        writer = await stack.enter_async_context(outside(broker.bootstrap, topics))
        watched = [topics[ChargeRated.TOPIC]]
        watch = await stack.enter_async_context(
            commit_watch(broker.bootstrap, watched, looker(supervisor))
        )
        yield Running(
            broker.bootstrap, broker.pid, topics, supervisor, service, port, writer, watch
        )


def start_again(run: Running) -> float:
    """Kill the process without warning and start it again, on its core; return when, by the clock.

    Clock readings are those of ``time.perf_counter``.
    """
    run.supervisor.kill(run.service.name)
    began = perf_counter()
    run.supervisor.look()
    run.supervisor.exits.clear()
    pin(run.pids["service"], one_core_and_the_rest()[0])
    return began


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=READY_WITHIN_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
