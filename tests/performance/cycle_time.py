"""How long from a barrier to committed quotas, with a given number of jobs in the queue.

Intake, capacity and clearing run as processes on a broker of their own, in replay mode, a cycle at
every barrier. The bench writes the barriers of placement and billing, and nothing else of theirs:
every job stays pending and wallets are empty. Before each cycle one job in a hundred gets another
limit. The clock runs from the sending of the outside's barrier until a read_committed consumer has
seen it in all partitions of ``quotas``.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from tests.performance.metrics import Totals, totals
from tests.performance.outside import (
    BenchError,
    CommitWatch,
    Outside,
    commit_watch,
    looker,
    outside,
)
from tests.performance.process_time import CpuMeter
from tests.performance.samples import p99, percentile
from tests.performance.workload import Workload
from walras.demo.services import MODULES
from walras.processes import Service, Supervisor
from walras_contracts.market import CycleSummarised
from walras_contracts.registry import decode_inner
from walras_contracts.topics import Topic, load_topics
from walras_launcher import start_kafka
from walras_launcher.kafka import Jit
from walras_launcher.ports import PortReservation
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Barrier, Record

SERVICES = ("intake", "capacity", "clearing")
FEEDBACK = ("job.status", "placement.figures", "balances", "budgets")
"""Topics of placement and billing: step n of their readers waits for an earlier barrier."""
TEAMS_PER_POOL = 3
LOAD_BATCH = 10_000
CHANGED_PER_CYCLE = 100
"""One job in so many gets another limit before each cycle."""


@dataclass(frozen=True, slots=True)
class CyclePlan:
    """Size of the measurement: queued jobs, cycles to settle, cycles to time.

    ``jit``: how the broker is compiled; ``c1`` starts sooner and is slower.
    """

    jobs: int
    settle: int
    cycles: int
    seed: int
    jit: Jit = "full"


@dataclass(frozen=True, slots=True)
class CycleFigures:
    """Barrier → committed quotas at one queue length; times in ms.

    ``p99_ms`` is null where fewer than 100 cycles were timed: look at ``most_ms``.
    ``intake_p50_ms`` is the part until intake's commit was seen; ``clearing_decide_*`` and
    ``clearing_commit_p50_ms`` are what clearing measured itself; the rest is delivery.
    ``cpu_ms_per_cycle`` includes the cost of writing and taking in the changed jobs.
    ``others_cores`` is what programs that do not belong to the run kept busy; ``partitions`` are
    those of ``quotas``.
    """

    jobs: int
    jobs_in_market: int
    changed_per_cycle: int
    cycles: int
    p50_ms: float
    p99_ms: float | None
    most_ms: float
    intake_p50_ms: float
    clearing_decide_p50_ms: float
    clearing_decide_most_ms: float
    clearing_commit_p50_ms: float
    cpu_ms_per_cycle: Mapping[str, float]
    others_cores: float
    partitions: int
    prices_micro: Mapping[str, int | None]


@dataclass(slots=True)
class _Samples:
    """Seconds of each timed cycle."""

    quotas: list[float] = field(default_factory=list)
    intake: list[float] = field(default_factory=list)
    decide: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Running:
    bootstrap: str
    pids: Mapping[str, int]
    clearing_port: int
    supervisor: Supervisor


def measure_cycles(plan: CyclePlan, say: Callable[[str], None]) -> CycleFigures:
    """Load a queue, then time cycles.

    Raises
    ------
    BenchError
        A process ended or stalled, or the markets did not see all jobs.
    """
    figures = asyncio.run(_measure(plan))
    say(
        f"{plan.jobs} jobs, {plan.cycles} cycles: p50 {figures.p50_ms} ms, most "
        f"{figures.most_ms} ms"
    )
    return figures


async def _measure(plan: CyclePlan) -> CycleFigures:
    topics = load_topics()
    workload = Workload(plan.jobs, TEAMS_PER_POOL, plan.seed)
    watched = [topics["accounts"], topics["quotas"]]
    async with _running(topics, plan.jit) as running:
        async with (
            outside(running.bootstrap, topics) as writer,
            commit_watch(running.bootstrap, watched, looker(running.supervisor)) as watch,
        ):
            market = _Market(topics, workload, writer, watch)
            await market.load(plan.jobs)
            for _ in range(plan.settle):
                await market.cycle()
            meter, began = CpuMeter(running.pids), perf_counter()
            samples = await _timed(market, plan.cycles, running.clearing_port)
            used, elapsed_s = meter.used(), perf_counter() - began
        last = await _last_summaries(running.bootstrap, topics, market.number)
    others = used.pop("others")
    seen = sum(summary.jobs_queued for summary in last)
    if seen != plan.jobs:
        raise BenchError(f"the markets saw {seen} jobs of {plan.jobs}")
    return CycleFigures(
        jobs=plan.jobs,
        jobs_in_market=seen,
        changed_per_cycle=market.changes,
        cycles=plan.cycles,
        p50_ms=_ms(percentile(samples.quotas, 50)),
        p99_ms=_ms_or_none(p99(samples.quotas)),
        most_ms=_ms(max(samples.quotas)),
        intake_p50_ms=_ms(percentile(samples.intake, 50)),
        clearing_decide_p50_ms=_ms(percentile(samples.decide, 50)),
        clearing_decide_most_ms=_ms(max(samples.decide)),
        clearing_commit_p50_ms=_ms(percentile(samples.commit, 50)),
        cpu_ms_per_cycle={name: _ms(s / plan.cycles) for name, s in used.items()},
        others_cores=round(others / elapsed_s, 2),
        partitions=topics["quotas"].partitions,
        prices_micro={summary.market: summary.reference_price_micro for summary in last},
    )


class _Market:
    """The outside of the running services, step by step."""

    def __init__(
        self, topics: Mapping[str, Topic], workload: Workload, writer: Outside, watch: CommitWatch
    ) -> None:
        self._outside = [topic.name for topic in topics.values() if topic.barriers == "outside"]
        self._workload = workload
        self._writer = writer
        self._watch = watch
        self.number = -1
        self.changes = 0

    async def load(self, jobs: int) -> None:
        """Write accounts, inventory and the queue, and run the cycles of that."""
        await self._writer.events([*self._workload.accounts(), *self._workload.inventory()])
        await self._step()
        left = jobs
        while left:
            batch = min(left, LOAD_BATCH)
            await self._writer.events(self._workload.submit(batch, self.number + 1))
            await self._step()
            left -= batch
        self.changes = max(1, jobs // CHANGED_PER_CYCLE)

    async def cycle(self) -> tuple[float, float]:
        """Change some limits, then run a cycle; return seconds to quotas and to intake's commit."""
        await self._writer.events(self._workload.change_limits(self.changes))
        return await self._step()

    async def _step(self) -> tuple[float, float]:
        self.number += 1
        barrier = Barrier(self.number, self._workload.time_ms(self.number))
        began = perf_counter()
        await self._writer.barrier(barrier, self._outside)
        times = await self._watch.wait(self.number)
        await self._writer.barrier(barrier, FEEDBACK)
        return times["quotas"] - began, times["accounts"] - began


async def _timed(market: _Market, cycles: int, port: int) -> _Samples:
    samples = _Samples()
    before = await _clearing(port, market.number + 1)
    for _ in range(cycles):
        to_quotas_s, to_intake_s = await market.cycle()
        now = await _clearing(port, market.number + 1)
        one = now.since(before, 1)
        before = now
        samples.quotas.append(to_quotas_s)
        samples.intake.append(to_intake_s)
        samples.decide.append(one.decide_s)
        samples.commit.append(one.commit_s)
    return samples


async def _clearing(port: int, steps: int) -> Totals:
    """Return clearing's totals once it has counted its latest step.

    The commit is seen on the log a moment before the service counts it.
    """
    end = perf_counter() + 10.0
    while True:
        found = await totals(port)
        if found.steps == steps:
            return found
        if found.steps > steps or perf_counter() > end:
            raise BenchError(f"clearing has counted {found.steps} steps, not {steps}")
        await asyncio.sleep(0.005)


async def _last_summaries(
    bootstrap: str, topics: Mapping[str, Topic], cycle: int
) -> Sequence[CycleSummarised]:
    topic = topics["cycles"]
    found = []
    for message in await read_all(bootstrap, topic.full_name, range(topic.partitions)):
        item = parse_message(message, topic.name)
        if isinstance(item, Record) and item.type == CycleSummarised.TYPE and item.value:
            summary = decode_inner(item.type, item.value)
            if isinstance(summary, CycleSummarised) and summary.cycle == cycle:
                found.append(summary)
    return found


@asynccontextmanager
async def _running(topics: Mapping[str, Topic], jit: Jit) -> AsyncIterator[_Running]:
    """Start a broker and the services, and stop them."""
    with contextlib.ExitStack() as stack:
        logs = stack.enter_context(tempfile.TemporaryDirectory())
        broker = stack.enter_context(start_kafka(jit=jit))
        await create_topics(broker.bootstrap, topics)
        port = stack.enter_context(PortReservation()).port
        services = [
            Service("intake", MODULES["intake"]),
            Service("capacity", MODULES["capacity"]),
            Service(
                "clearing",
                MODULES["clearing"],
                {"WALRAS_CLEARING_HEALTH_PORT": str(port)},
            ),
        ]
        shared = {"WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap, "WALRAS_MODE": "replay"}
        supervisor = Supervisor(services, shared, Path(logs))
        stack.callback(supervisor.stop)
        supervisor.start()
        pids = {name: supervisor.pid(name) for name in SERVICES}
        yield _Running(broker.bootstrap, {**pids, "broker": broker.pid}, port, supervisor)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def _ms_or_none(seconds: float | None) -> float | None:
    return None if seconds is None else _ms(seconds)
