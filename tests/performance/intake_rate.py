"""How many events a second intake takes on one core, beside a rival that only decodes and encodes.

A run: accounts and some batches to warm up, then a backlog (`one_process.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tests.performance.one_process import (
    PYTHON_PATH,
    Rate,
    RateRun,
    Running,
    rate_of,
    ratio,
    running,
)
from tests.performance.outside import BenchError
from tests.performance.workload import Workload
from walras.processes import Service
from walras_contracts.demand import DemandRejected, JobQueued
from walras_contracts.topics import load_topics
from walras_launcher.kafka import Jit
from walras_runtime.records import Barrier

BARRIERS = ("job.status", "accounts.requests", "demand")
"""What intake waits for and does not write itself; ``job.status`` in placement's place."""
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
class IntakeRun(RateRun):
    """One run, and what was done with its events."""

    accepted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class IntakeRate(Rate):
    """All runs of one process, and what was done with the events of each."""

    accepted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class IntakeFigures:
    """Intake beside its rival; the ratios are intake over rival, 1 being the most."""

    events_per_run: int
    batch: int
    teams: int
    runs: int
    partitions: int
    intake: IntakeRate
    rival: IntakeRate
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
        ratio_wall=ratio(intake.events_per_s, rival.events_per_s),
        ratio_cpu=ratio(intake.events_per_cpu_s, rival.events_per_cpu_s),
    )


def _rate(runs: list[IntakeRun]) -> IntakeRate:
    rate = rate_of(runs)
    return IntakeRate(
        events_per_s=rate.events_per_s,
        events_per_cpu_s=rate.events_per_cpu_s,
        others_cores=rate.others_cores,
        accepted=min(run.accepted for run in runs),
        rejected=max(run.rejected for run in runs),
    )


async def _run(service: Service, workload: Workload, plan: IntakePlan) -> IntakeRun:
    async with running(service, "accounts", "WALRAS_INTAKE_HEALTH_PORT", plan.jit) as run:
        await run.writer.events(workload.accounts())
        await run.writer.barrier(Barrier(0, workload.time_ms(0)), BARRIERS)
        await run.watch.wait(0)
        for number in range(1, plan.warm_up + 1):
            await _write_batch(run, workload, number, plan.batch)
        await run.watch.wait(plan.warm_up)
        last = plan.warm_up + plan.events // plan.batch
        timed = await run.backlog(
            plan.events,
            lambda number: _write_batch(run, workload, number, plan.batch),
            range(plan.warm_up + 1, last + 1),
        )
        accepted, rejected = [
            sum(record.type == event.TYPE for record in await run.records(event.TOPIC))
            for event in (JobQueued, DemandRejected)
        ]
    warm = plan.warm_up * plan.batch
    if accepted != warm + plan.events or rejected:
        raise BenchError(f"{service.name} took {accepted} events and refused {rejected}")
    return IntakeRun(
        events=timed.events,
        wall_s=timed.wall_s,
        cpu_s=timed.cpu_s,
        others_cores=timed.others_cores,
        accepted=accepted - warm,
        rejected=rejected,
    )


async def _write_batch(run: Running, workload: Workload, number: int, batch: int) -> None:
    await run.writer.events(workload.submit(batch, number))
    await run.writer.barrier(Barrier(number, workload.time_ms(number)), BARRIERS)
