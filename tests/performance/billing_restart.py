"""How long billing takes to be ready again with many charges behind it, all of them remembered.

The process is killed after its last step and started again by the same parent, which has imported
its modules already; the clock runs until it says that it is ready.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from tests.performance.billing_process import BILLING, begin, feed, running_billing, start_again
from tests.performance.billing_workload import BillingSize, BillingWorkload
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from tests.performance.samples import Spread, spread
from walras_contracts.charges import ChargeRated
from walras_launcher.kafka import Jit

AHEAD = 4
"""So many minutes are written before the first of them has been rated."""


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """So many leases with a charge in each of so many minutes, and how often to start again."""

    leases: int
    minutes: int
    teams: int
    pools: int
    starts: int
    seed: int
    jit: Jit = "full"


@dataclass(frozen=True, slots=True)
class RestartFigures:
    """Milliseconds until ready, by the clock and of CPU of the process."""

    charges: int
    starts: int
    wall_ms: Spread
    cpu_ms: Spread
    others_cores: float


def measure_restart(plan: RestartPlan, say: Callable[[str], None]) -> RestartFigures:
    """Charge, then start again and again.

    Raises
    ------
    BenchError
        The process ended by itself or stalled, or does not go on where it was.
    """
    return asyncio.run(_measure(plan, say))


async def _measure(plan: RestartPlan, say: Callable[[str], None]) -> RestartFigures:
    workload = BillingWorkload(BillingSize(plan.leases, plan.teams, plan.pools, plan.seed))
    leases = range(plan.leases)
    walls, cpus, others = [], [], []
    async with running_billing(BILLING, plan.jit) as run:
        await begin(run, workload)
        for number in range(1, plan.minutes + 1):
            await feed(run, workload, number, leases)
            await run.watch.wait(max(0, number - AHEAD))
        # A minute without use: the grace of the last one is over.
        last = plan.minutes + 1
        await feed(run, workload, last, range(0))
        await run.watch.wait(last)
        charges = plan.leases * plan.minutes
        say(f"{charges:,} charges are written")
        for _ in range(plan.starts):
            began = start_again(run)
            meter = CpuMeter({"broker": run.broker_pid, "service": run.pids["service"]})
            _, cpu_s = await run.ready()
            walls.append(perf_counter() - began)
            cpus.append(cpu_s)
            others.append(meter.used()["others"] / walls[-1])
            say(f"ready again after {walls[-1]:.2f} s, {cpu_s:.2f} s of CPU")
            last += 1
            await feed(run, workload, last, range(0))
            await run.watch.wait(last)
        found = sum(r.type == ChargeRated.TYPE for r in await run.records(ChargeRated.TOPIC))
        if found != charges:
            raise BenchError(f"{found} charges were written, not {charges}")
    return RestartFigures(
        charges=charges,
        starts=plan.starts,
        wall_ms=spread([1000 * wall_s for wall_s in walls]),
        cpu_ms=spread([1000 * cpu_s for cpu_s in cpus]),
        others_cores=round(max(others), 2),
    )
