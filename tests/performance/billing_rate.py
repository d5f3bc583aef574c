"""How many usage events a second billing rates on one core, beside two rivals in the same run.

A run: a broker of its own; the process under test alone on one core, everything else on the rest;
accounts and some minutes of use to warm up. Then the process is held (SIGSTOP) while a backlog with
all its barriers is written, and let go: the clock runs until the last barrier is committed in all
partitions of ``charges``. Reading the log is thus in the figure, writing it is not.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from tests.performance.billing_process import BILLING, COPY, NOOP, Running, running
from tests.performance.billing_workload import BillingSize, BillingWorkload, expected_numerator
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from tests.performance.samples import Spread, spread
from walras.processes import Service
from walras_contracts.charges import ChargeRated, UsageQuarantined
from walras_contracts.topics import load_topics
from walras_contracts.work import UsageMetered
from walras_launcher.kafka import Jit
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Record


@dataclass(frozen=True, slots=True)
class RatePlan:
    """Size of the measurement: so many leases, each with a record in each of so many minutes.

    ``jit``: how the broker is compiled; ``c1`` starts sooner and is slower.
    """

    leases: int
    minutes: int
    warm_up: int
    teams: int
    pools: int
    runs: int
    seed: int
    jit: Jit = "full"


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


@dataclass(frozen=True, slots=True)
class RateFigures:
    """Billing beside its rivals; the ratios are billing over rival, by the medians."""

    events_per_run: int
    events_per_barrier: int
    teams: int
    runs: int
    partitions: int
    billing: Rate
    copy: Rate
    noop: Rate
    ratio_wall: float
    ratio_cpu: float
    noop_ratio_wall: float
    noop_ratio_cpu: float


def measure_rate(plan: RatePlan, say: Callable[[str], None]) -> RateFigures:
    """Run billing and the rivals in turn.

    Raises
    ------
    BenchError
        A process ended, stalled or did not do its work: a charge is missing, or amounts differ.
    """
    workload = BillingWorkload(BillingSize(plan.leases, plan.teams, plan.pools, plan.seed))
    runs: dict[str, list[RateRun]] = {each.name: [] for each in (BILLING, COPY, NOOP)}
    for number in range(plan.runs):
        for service in (BILLING, COPY, NOOP):
            run = asyncio.run(_run(service, workload, plan))
            runs[service.name].append(run)
            say(
                f"{service.name}, run {number + 1} of {plan.runs}: {run.events:,} events in "
                f"{run.wall_s:.2f} s, {run.cpu_s:.2f} s of CPU"
            )
    billing, copy, noop = (_rate(runs[each.name]) for each in (BILLING, COPY, NOOP))
    return RateFigures(
        events_per_run=plan.leases * plan.minutes,
        events_per_barrier=plan.leases,
        teams=plan.teams,
        runs=plan.runs,
        partitions=load_topics()[UsageMetered.TOPIC].partitions,
        billing=billing,
        copy=copy,
        noop=noop,
        ratio_wall=_ratio(billing.events_per_s, copy.events_per_s),
        ratio_cpu=_ratio(billing.events_per_cpu_s, copy.events_per_cpu_s),
        noop_ratio_wall=_ratio(billing.events_per_s, noop.events_per_s),
        noop_ratio_cpu=_ratio(billing.events_per_cpu_s, noop.events_per_cpu_s),
    )


def _rate(runs: list[RateRun]) -> Rate:
    return Rate(
        events_per_s=spread([run.events / run.wall_s for run in runs]),
        events_per_cpu_s=spread([run.events / run.cpu_s for run in runs]),
        others_cores=round(max(run.others_cores for run in runs), 2),
    )


def _ratio(figure: Spread, other: Spread) -> float:
    return round(figure.median / other.median, 3)


async def _run(service: Service, workload: BillingWorkload, plan: RatePlan) -> RateRun:
    leases = range(plan.leases)
    async with running(service, plan.jit) as run:
        await run.writer.events(workload.documents())
        await run.end_step(workload, 0)
        for number in range(1, plan.warm_up + 1):
            await run.feed(workload, number, leases)
        await run.watch.wait(plan.warm_up)
        pid = run.pids["service"]
        os.kill(pid, signal.SIGSTOP)
        try:
            last = plan.warm_up + plan.minutes
            for number in range(plan.warm_up + 1, last + 1):
                await run.feed(workload, number, leases)
            meter = CpuMeter(run.pids)
            began = perf_counter()
        finally:
            os.kill(pid, signal.SIGCONT)
        times = await run.watch.wait(last)
        wall_s, used = times[ChargeRated.TOPIC] - began, meter.used()
        await _check(service, workload, run, last)
    return RateRun(
        events=plan.leases * plan.minutes,
        wall_s=wall_s,
        cpu_s=used["service"],
        others_cores=used["others"] / wall_s,
    )


async def _check(service: Service, workload: BillingWorkload, run: Running, last: int) -> None:
    """Check what was written: a figure of a run that did something else says nothing.

    Billing has rated all minutes but the last, whose grace is not over.
    """
    charges = [e for e in await _events(run, ChargeRated.TOPIC) if e.type == ChargeRated.TYPE]
    quarantined = len(await _events(run, UsageQuarantined.TOPIC))
    minutes = {BILLING.name: last - 1, COPY.name: last, NOOP.name: 0}[service.name]
    wanted = workload.size.leases * minutes
    if len(charges) != wanted or quarantined:
        raise BenchError(
            f"{service.name} wrote {len(charges)} charges, not {wanted}, and "
            f"{quarantined} records of usage that is not charged"
        )
    if service is not BILLING:
        return
    found = sum(
        int(ChargeRated.model_validate_json(charge.value or b"").amount_numerator)
        for charge in charges
    )
    if found != expected_amount(workload, range(1, last)):
        raise BenchError(f"{service.name} charged {found}, which is not what the use costs")


def expected_amount(workload: BillingWorkload, numbers: range) -> int:
    """Return what all use of some minutes costs, in numerator units, by the plain formula."""
    return sum(
        expected_numerator(UsageMetered.model_validate_json(output.payload or b""), number)
        for number in numbers
        for output in workload.usage(number, range(workload.size.leases))
    )


async def _events(run: Running, name: str) -> list[Record]:
    topic = run.topics[name]
    messages = await read_all(run.bootstrap, topic.full_name, range(topic.partitions))
    items = (parse_message(message, name) for message in messages)
    return [item for item in items if isinstance(item, Record)]
