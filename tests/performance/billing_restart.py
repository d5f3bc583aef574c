"""How long billing takes to be ready again with many charges behind it, all of them remembered.

The process is killed after its last step and started again by the same parent, which has imported
its modules already; the clock runs until it says that it is ready.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from tests.performance.billing_process import BILLING, running, start_again
from tests.performance.billing_workload import BillingSize, BillingWorkload
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from tests.performance.samples import Spread, spread
from walras_contracts.charges import ChargeRated
from walras_launcher.kafka import Jit
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Record

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
    async with running(BILLING, plan.jit) as run:
        await run.writer.events(workload.documents())
        await run.end_step(workload, 0)
        for number in range(1, plan.minutes + 1):
            await run.feed(workload, number, leases)
            await run.watch.wait(max(0, number - AHEAD))
        # A minute without use: the grace of the last one is over.
        last = plan.minutes + 1
        await run.feed(workload, last, range(0))
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
            await run.feed(workload, last, range(0))
            await run.watch.wait(last)
        topic = run.topics[ChargeRated.TOPIC]
        messages = await read_all(run.bootstrap, topic.full_name, range(topic.partitions))
        items = (parse_message(message, topic.name) for message in messages)
        found = sum(isinstance(i, Record) and i.type == ChargeRated.TYPE for i in items)
        if found != charges:
            raise BenchError(f"{found} charges were written, not {charges}")
    return RestartFigures(
        charges=charges,
        starts=plan.starts,
        wall_ms=spread([1000 * wall_s for wall_s in walls]),
        cpu_ms=spread([1000 * cpu_s for cpu_s in cpus]),
        others_cores=round(max(others), 2),
    )
