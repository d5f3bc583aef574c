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

from tests.performance.billing_process import BILLING, Running, running
from tests.performance.billing_workload import BillingSize, BillingWorkload
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from tests.performance.samples import Spread, spread
from walras_contracts.charges import ChargeRated
from walras_contracts.money import BalancePublished
from walras_launcher.kafka import Jit
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Record

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
    async with running(BILLING, plan.jit) as run:
        await run.writer.events(workload.documents())
        await run.end_step(workload, 0)
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
        await _check(run, plan)
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
        await run.write(outputs)
    await run.writer.events(workload.prices(number))
    await run.end_step(workload, number)


async def _check(run: Running, plan: SettlementPlan) -> None:
    """Check that every team was settled at every boundary, and has spent something at the last."""
    topic = run.topics[BalancePublished.TOPIC]
    messages = await read_all(run.bootstrap, topic.full_name, range(topic.partitions))
    items = (parse_message(message, topic.name) for message in messages)
    balances = [
        BalancePublished.model_validate_json(item.value or b"")
        for item in items
        if isinstance(item, Record)
    ]
    settled = Counter(balance.boundary_ms for balance in balances)
    # The boundary at which the run begins is settled too.
    if set(settled.values()) != {plan.teams} or len(settled) != plan.settlements + 1:
        raise BenchError(f"balances by boundary: {dict(settled)}")
    if not any(each.spent_micro for each in balances):
        raise BenchError("nobody has spent anything")
