"""How many events a second intake takes on one core, beside a rival that only decodes and encodes.

A run: a broker of its own; the process under test alone on one core, everything else on the rest;
accounts and some batches to warm up. Then the process is held (SIGSTOP) while a backlog with all
its barriers is written, and let go: the clock runs until the last barrier is committed in all
partitions. Reading the log is thus in the figure, writing it is not.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.performance.machine import ROOT
from tests.performance.outside import (
    BenchError,
    CommitWatch,
    Outside,
    commit_watch,
    looker,
    outside,
)
from tests.performance.process_time import CpuMeter, one_core_and_the_rest, pin
from tests.performance.samples import Spread, spread
from tests.performance.workload import Workload
from walras.processes import Service, Supervisor
from walras_contracts.demand import DemandRejected, JobQueued
from walras_contracts.topics import Topic, load_topics
from walras_launcher import start_kafka
from walras_launcher.kafka import Jit
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Barrier, Record

BARRIERS = ("job.status", "accounts.requests", "demand")
"""What intake waits for and does not write itself; ``job.status`` in placement's place."""
PYTHON_PATH = {"PYTHONPATH": str(ROOT)}
INTAKE = Service("intake", "walras_intake")
RIVAL = Service("edge_copy", "tests.performance.edge_copy", PYTHON_PATH)


@dataclass(frozen=True, slots=True)
class IntakePlan:
    """Size of the measurement: events per run, of how many teams, in which batches.

    ``jit``: how the broker is compiled; ``c1`` starts sooner and is slower.
    """

    events: int
    batch: int
    warm_up: int
    teams_per_pool: int
    runs: int
    seed: int
    jit: Jit = "full"


@dataclass(frozen=True, slots=True)
class IntakeRun:
    """One run; ``others_cores``: cores that other programs of the machine kept busy meanwhile."""

    events: int
    accepted: int
    rejected: int
    wall_s: float
    cpu_s: float
    others_cores: float


@dataclass(frozen=True, slots=True)
class Rate:
    """All runs of one process: events per second, and per CPU second of that process."""

    events_per_s: Spread
    events_per_cpu_s: Spread
    accepted: int
    rejected: int
    others_cores: float


@dataclass(frozen=True, slots=True)
class IntakeFigures:
    """Intake beside its rival; the ratios are intake over rival, 1 being the most."""

    events_per_run: int
    batch: int
    teams: int
    runs: int
    partitions: int
    intake: Rate
    rival: Rate
    ratio_wall: float
    ratio_cpu: float


def measure_intake(plan: IntakePlan, say: Callable[[str], None]) -> IntakeFigures:
    """Run intake and the rival in turn.

    Raises
    ------
    BenchError
        A process ended, stalled or did not take all events.
    """
    runs: dict[str, list[IntakeRun]] = {INTAKE.name: [], RIVAL.name: []}
    workload = Workload(plan.events, plan.teams_per_pool, plan.seed)
    for number in range(plan.runs):
        for service in (INTAKE, RIVAL):
            run = asyncio.run(_run(service, workload, plan))
            runs[service.name].append(run)
            workload.submitted.clear()
            say(
                f"{service.name}, run {number + 1} of {plan.runs}: {run.events} events in "
                f"{run.wall_s:.2f} s, {run.cpu_s:.2f} s of CPU"
            )
    intake, rival = _rate(runs[INTAKE.name]), _rate(runs[RIVAL.name])
    return IntakeFigures(
        events_per_run=plan.events,
        batch=plan.batch,
        teams=plan.teams_per_pool * len(workload.scenario.pools),
        runs=plan.runs,
        partitions=load_topics()["demand"].partitions,
        intake=intake,
        rival=rival,
        ratio_wall=round(intake.events_per_s.median / rival.events_per_s.median, 3),
        ratio_cpu=round(intake.events_per_cpu_s.median / rival.events_per_cpu_s.median, 3),
    )


def _rate(runs: list[IntakeRun]) -> Rate:
    return Rate(
        events_per_s=spread([run.events / run.wall_s for run in runs]),
        events_per_cpu_s=spread([run.events / run.cpu_s for run in runs]),
        accepted=min(run.accepted for run in runs),
        rejected=max(run.rejected for run in runs),
        others_cores=round(max(run.others_cores for run in runs), 2),
    )


async def _run(service: Service, workload: Workload, plan: IntakePlan) -> IntakeRun:
    topics = load_topics()
    one, rest = one_core_and_the_rest()
    async with _running(service, topics, plan.jit) as (bootstrap, broker_pid, supervisor):
        pids = {"service": supervisor.pid(service.name), "broker": broker_pid}
        pin(pids["broker"], rest)
        pin(pids["service"], one)
        watch_accounts = commit_watch(bootstrap, [topics["accounts"]], looker(supervisor))
        with _on(rest):
            async with outside(bootstrap, topics) as writer, watch_accounts as watch:
                await writer.events(workload.accounts())
                await writer.barrier(Barrier(0, workload.time_ms(0)), BARRIERS)
                await watch.wait(0)
                for number in range(1, plan.warm_up + 1):
                    await _write_batch(writer, workload, number, plan.batch)
                await watch.wait(plan.warm_up)
                wall_s, cpu = await _timed(writer, watch, workload, plan, pids)
        accepted, rejected = await _outcome(bootstrap, topics)
    warm = plan.warm_up * plan.batch
    if accepted != warm + plan.events or rejected:
        raise BenchError(f"{service.name} took {accepted} events and refused {rejected}")
    return IntakeRun(
        events=plan.events,
        accepted=accepted - warm,
        rejected=rejected,
        wall_s=wall_s,
        cpu_s=cpu["service"],
        others_cores=cpu["others"] / wall_s,
    )


async def _timed(
    writer: Outside,
    watch: CommitWatch,
    workload: Workload,
    plan: IntakePlan,
    pids: Mapping[str, int],
) -> tuple[float, Mapping[str, float]]:
    """Write the backlog while the process is held; return the time to its last commit."""
    batches = plan.events // plan.batch
    pid = pids["service"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for number in range(plan.warm_up + 1, plan.warm_up + batches + 1):
            await _write_batch(writer, workload, number, plan.batch)
        meter = CpuMeter(pids)
        began = perf_counter()
    finally:
        os.kill(pid, signal.SIGCONT)
    times = await watch.wait(plan.warm_up + batches)
    return times["accounts"] - began, meter.used()


async def _write_batch(writer: Outside, workload: Workload, number: int, batch: int) -> None:
    await writer.events(workload.submit(batch, number))
    await writer.barrier(Barrier(number, workload.time_ms(number)), BARRIERS)


async def _outcome(bootstrap: str, topics: Mapping[str, Topic]) -> tuple[int, int]:
    """Count what was queued and what was refused."""
    counts = []
    for event in (JobQueued, DemandRejected):
        topic = topics[event.TOPIC]
        messages = await read_all(bootstrap, topic.full_name, range(topic.partitions))
        items = (parse_message(message, topic.name) for message in messages)
        counts.append(sum(isinstance(i, Record) and i.type == event.TYPE for i in items))
    return counts[0], counts[1]


@asynccontextmanager
async def _running(
    service: Service, topics: Mapping[str, Topic], jit: Jit
) -> AsyncIterator[tuple[str, int, Supervisor]]:
    """Start a broker and one service, and stop them."""
    with tempfile.TemporaryDirectory() as logs, start_kafka(jit=jit) as broker:
        await create_topics(broker.bootstrap, topics)
        shared = {"WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap, "WALRAS_MODE": "replay"}
        supervisor = Supervisor([service], shared, Path(logs))
        supervisor.start()
        try:
            yield broker.bootstrap, broker.pid, supervisor
        finally:
            supervisor.stop()


@contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """Keep this process on some cores meanwhile."""
    before = os.sched_getaffinity(0)
    pin(os.getpid(), cores)
    try:
        yield
    finally:
        pin(os.getpid(), before)
