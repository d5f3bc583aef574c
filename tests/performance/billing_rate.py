"""How many usage events a second billing rates on one core, beside two rivals in the same run.

A run: accounts and some minutes of use to warm up, then a backlog (`one_process.py`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tests.performance.billing_process import BILLING, COPY, NOOP, begin, feed, running_billing
from tests.performance.billing_workload import BillingSize, BillingWorkload, expected_numerator
from tests.performance.one_process import Rate, RateRun, Running, rate_of, ratio
from tests.performance.outside import BenchError
from walras.processes import Service
from walras_contracts.charges import ChargeRated, UsageQuarantined
from walras_contracts.topics import load_topics
from walras_contracts.work import UsageMetered
from walras_launcher.kafka import Jit


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
    billing, copy, noop = (rate_of(runs[each.name]) for each in (BILLING, COPY, NOOP))
    return RateFigures(
        events_per_run=plan.leases * plan.minutes,
        events_per_barrier=plan.leases,
        teams=plan.teams,
        runs=plan.runs,
        partitions=load_topics()[UsageMetered.TOPIC].partitions,
        billing=billing,
        copy=copy,
        noop=noop,
        ratio_wall=ratio(billing.events_per_s, copy.events_per_s),
        ratio_cpu=ratio(billing.events_per_cpu_s, copy.events_per_cpu_s),
        noop_ratio_wall=ratio(billing.events_per_s, noop.events_per_s),
        noop_ratio_cpu=ratio(billing.events_per_cpu_s, noop.events_per_cpu_s),
    )


async def _run(service: Service, workload: BillingWorkload, plan: RatePlan) -> RateRun:
    leases = range(plan.leases)
    async with running_billing(service, plan.jit) as run:
        await begin(run, workload)
        for number in range(1, plan.warm_up + 1):
            await feed(run, workload, number, leases)
        await run.watch.wait(plan.warm_up)
        last = plan.warm_up + plan.minutes
        found = await run.backlog(
            plan.leases * plan.minutes,
            lambda number: feed(run, workload, number, leases),
            range(plan.warm_up + 1, last + 1),
        )
        await _check(service, workload, run, last)
    return found


async def _check(service: Service, workload: BillingWorkload, run: Running, last: int) -> None:
    """Check what was written: a figure of a run that did something else says nothing.

    Billing has rated all minutes but the last, whose grace is not over.
    """
    charges = [e for e in await run.records(ChargeRated.TOPIC) if e.type == ChargeRated.TYPE]
    quarantined = len(await run.records(UsageQuarantined.TOPIC))
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
