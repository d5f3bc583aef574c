"""A service, or its rival, as a process on a broker of its own: alone on a core, fed by the bench.

A rate is measured so: the process is held (SIGSTOP) while a backlog with all its barriers is
written, and let go: the clock runs until the last barrier is committed in all partitions of what is
watched. Reading the log is thus in the figure, writing it is not.
"""

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.performance.machine import ROOT
from tests.performance.outside import CommitWatch, Outside, commit_watch, looker, outside
from tests.performance.process_time import CpuMeter, one_core_and_the_rest, pin
from tests.performance.readiness import wait_until_ready
from tests.performance.samples import Spread, spread
from walras.processes import Service, Supervisor
from walras_contracts.topics import Topic, load_topics
from walras_launcher import start_kafka
from walras_launcher.kafka import Jit
from walras_launcher.ports import PortReservation
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Record

PYTHON_PATH = {"PYTHONPATH": str(ROOT)}
"""Environment of a process whose module lies beside the bench."""


@dataclass(frozen=True, slots=True)
class RateRun:
    """One run; ``others_cores``: cores that other programs of the machine kept busy meanwhile."""

    events: int
    wall_s: float
    cpu_s: float
    others_cores: float


@dataclass(frozen=True, slots=True)
class Rate:
    """All runs of one process: events per second, and per CPU second of that process."""

    events_per_s: Spread
    events_per_cpu_s: Spread
    others_cores: float


def rate_of(runs: Sequence[RateRun]) -> Rate:
    """Summarise the runs of one process."""
    return Rate(
        events_per_s=spread([run.events / run.wall_s for run in runs]),
        events_per_cpu_s=spread([run.events / run.cpu_s for run in runs]),
        others_cores=round(max(run.others_cores for run in runs), 2),
    )


def ratio(figure: Spread, other: Spread) -> float:
    """Return one figure over another, by the medians."""
    return round(figure.median / other.median, 3)


@dataclass(frozen=True, slots=True)
class Running:
    """A process under test on its broker; made by :func:`running`."""

    bootstrap: str
    broker_pid: int
    topics: Mapping[str, Topic]
    supervisor: Supervisor
    service: Service
    port: int
    watched: str
    writer: Outside
    watch: CommitWatch

    @property
    def pids(self) -> dict[str, int]:
        """Process ids for a meter."""
        return {"service": self.supervisor.pid(self.service.name), "broker": self.broker_pid}

    async def backlog(
        self, events: int, write: Callable[[int], Awaitable[None]], steps: range
    ) -> RateRun:
        """Write steps while the process is held, and time how it works them off.

        Parameters
        ----------
        events
            How many there are in all of the steps.
        write
            Writes a step and its barrier.
        steps
            Numbers of the barriers.

        Raises
        ------
        BenchError
            The process ended or stalled.
        """
        pid = self.pids["service"]
        os.kill(pid, signal.SIGSTOP)
        try:
            for number in steps:
                await write(number)
            meter = CpuMeter(self.pids)
            began = perf_counter()
        finally:
            os.kill(pid, signal.SIGCONT)
        times = await self.watch.wait(steps[-1])
        wall_s, used = times[self.watched] - began, meter.used()
        return RateRun(events, wall_s, used["service"], used["others"] / wall_s)

    async def ready(self) -> tuple[float, float]:
        """Wait until the process is ready; return the seconds from now, and its CPU seconds.

        Raises
        ------
        BenchError
            It ended, or does not become ready.
        """
        pid, look = self.pids["service"], looker(self.supervisor)
        return await wait_until_ready(self.service.name, self.port, pid, look)

    async def records(self, name: str) -> list[Record]:
        """Read all committed records of a topic."""
        topic = self.topics[name]
        messages = await read_all(self.bootstrap, topic.full_name, range(topic.partitions))
        items = (parse_message(message, name) for message in messages)
        return [item for item in items if isinstance(item, Record)]


@asynccontextmanager
async def running(
    service: Service, watched: str, port_variable: str, jit: Jit
) -> AsyncIterator[Running]:
    """Start a broker and the process, which gets a core of its own; stop them at the end.

    Parameters
    ----------
    service
        What is started.
    watched
        Topic in which its barriers are waited for.
    port_variable
        The setting of the port at which it says whether it is ready.
    jit
        How the broker is compiled.
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
        supervisor = Supervisor([service], shared | {port_variable: str(port)}, logs)
        stack.callback(supervisor.stop)
        supervisor.start()
        pin(broker.pid, rest)
        pin(supervisor.pid(service.name), one)
        stack.callback(pin, os.getpid(), before)
        pin(os.getpid(), rest)
        writer = await stack.enter_async_context(outside(broker.bootstrap, topics))
        watch = await stack.enter_async_context(
            commit_watch(broker.bootstrap, [topics[watched]], looker(supervisor))
        )
        yield Running(
            *(broker.bootstrap, broker.pid, topics, supervisor, service, port),
            *(watched, writer, watch),
        )
