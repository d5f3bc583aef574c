"""How long the settlement of many teams takes: its barrier on Kafka → committed balances.

All teams are in one process on one core; each has used something since the last settlement. The
clock runs from before the barrier is sent until a read_committed consumer has seen it in all
partitions of ``charges``. Nothing is charged in that step, so that the reader need not read half a
million records first; each partition's ledger, balances and budgets are in the same transaction.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from tests.performance.billing_process import BILLING, begin, end_step, running_billing, write
from tests.performance.billing_workload import BillingSize, BillingWorkload
from tests.performance.one_process import Running
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from tests.performance.samples import Spread, spread
from walras_contracts.charges import ChargeRated
from walras_contracts.money import BalancePublished
from walras_contracts.work import UsageMetered, WorkClass
from walras_launcher.kafka import Jit

MINUTES = 5
"""Between two settlements."""
GRACE_MINUTES = 1
USE_AFTER = 3
"""So many minutes after a boundary there is use: it is rated before the next settlement."""


@dataclass(frozen=True, slots=True)
class SettlementPlan:
    """Teams, in pools, and how many settlements; ``jit`` as in the plan of rates."""

    teams: int
    pools: int
    settlements: int
    seed: int
    jit: Jit = "full"


@dataclass(frozen=True, slots=True)
class SettlementFigures:
    """Milliseconds of a settlement, by the clock and of CPU of the process."""

    teams: int
    settlements: int
    wall_ms: Spread
    cpu_ms: Spread
    others_cores: float


def measure_settlement(plan: SettlementPlan, say: Callable[[str], None]) -> SettlementFigures:
    """Settle again and again.

    Raises
    ------
    BenchError
        The process ended or stalled, or a team has no balance.
    """
    return asyncio.run(_measure(plan, say))


async def _measure(plan: SettlementPlan, say: Callable[[str], None]) -> SettlementFigures:
    workload = BillingWorkload(BillingSize(plan.teams, plan.teams, plan.pools, plan.seed))
    walls, cpus, others = [], [], []
    async with running_billing(BILLING, plan.jit) as run:
        await begin(run, workload)
        for number in range(1, plan.settlements * MINUTES + GRACE_MINUTES + 1):
            use = number % MINUTES == USE_AFTER
            if (number - GRACE_MINUTES) % MINUTES or number < MINUTES:
                await _minute(run, workload, number, use=use)
                continue
            await run.watch.wait(number - 1)
            meter = CpuMeter(run.pids)
            began = perf_counter()
            await _minute(run, workload, number, use=use)
            walls.append((await run.watch.wait(number))[ChargeRated.TOPIC] - began)
            used = meter.used()
            cpus.append(used["service"])
            others.append(used["others"] / walls[-1])
            say(f"settled {plan.teams:,} teams in {walls[-1]:.2f} s, {cpus[-1]:.2f} s of CPU")
        await _check(run, workload, plan)
    return SettlementFigures(
        teams=plan.teams,
        settlements=plan.settlements,
        wall_ms=spread([1000 * wall_s for wall_s in walls]),
        cpu_ms=spread([1000 * cpu_s for cpu_s in cpus]),
        others_cores=round(max(others), 2),
    )


async def _minute(run: Running, workload: BillingWorkload, number: int, *, use: bool) -> None:
    if use:
        outputs = workload.usage(number, range(workload.size.leases), number // MINUTES)
        await write(run, outputs)
    await run.writer.events(workload.prices(number))
    await end_step(run, workload, number)


async def _check(run: Running, workload: BillingWorkload, plan: SettlementPlan) -> None:
    """Check that every team was settled at every boundary, and all that pay had paid by the last.

    Opportunistic use is free.
    """
    balances = [
        BalancePublished.model_validate_json(record.value or b"")
        for record in await run.records(BalancePublished.TOPIC)
    ]
    settled = Counter(balance.boundary_ms for balance in balances)
    # The boundary at which the run begins is settled too.
    if set(settled.values()) != {plan.teams} or len(settled) != plan.settlements + 1:
        raise BenchError(f"balances by boundary: {dict(settled)}")
    paid = {b.team for b in balances if b.boundary_ms == max(settled) and b.spent_micro}
    use = (
        UsageMetered.model_validate_json(output.payload or b"")
        for output in workload.usage(USE_AFTER, range(plan.teams), 0)
    )
    pay = {each.team for each in use if each.work_class is not WorkClass.OPPORTUNISTIC}
    if paid != pay:
        raise BenchError(f"{len(paid)} teams have spent something, not {len(pay)}")
