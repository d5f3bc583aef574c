"""The whole cycle at fleet scale: a barrier on Kafka → prices and quotas committed.

The clearing service runs as a process on a real broker, in replay mode, a cycle at every barrier.
The bench is intake, capacity, placement and billing: what they write for a step, and its barrier,
become readable at once. Before each cycle 1 % of the jobs change and every team's wallet does. The
clock runs from the moment the broker has acknowledged the last barrier record, before the commit
that lets anybody read it, until a read_committed consumer has seen the barrier in all partitions of
``prices`` and ``quotas``.
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

from tests.performance.fleet_figures import FleetFigures, FleetPlan, Samples, figures_of
from tests.performance.fleet_log import fold_bids, last_summaries
from tests.performance.fleet_process import Clearing, clearing
from tests.performance.fleet_roles import Roles, roles
from tests.performance.fleet_workload import FleetSize, FleetWorkload
from tests.performance.outside import BenchError, CommitWatch, Rows, commit_watch
from tests.performance.process_time import CpuMeter
from walras_contracts.topics import load_topics
from walras_launcher import start_kafka
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.records import Barrier, emit

LOAD_BATCH = 100_000
CHANGED_PER_CYCLE = 100
"""One job in so many changes before each cycle."""
LEAST_CHANGED_PPM = 990_000
"""Of the teams: in every timed cycle so many must bid something else than in the one before."""
WATCHED = ("prices", "quotas")
SAY_EVERY = 10


def measure_fleet(
    plan: FleetPlan, say: Callable[[str], None], profile: Path | None = None
) -> FleetFigures:
    """Load a fleet, restart the service, time cycles.

    Raises
    ------
    BenchError
        A process ended or stalled, or the run did not do what it is to measure: jobs are missing,
        or too few bids changed.
    """
    return asyncio.run(_measure(plan, say, profile))


async def _measure(
    plan: FleetPlan, say: Callable[[str], None], profile: Path | None
) -> FleetFigures:
    topics = load_topics()
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(start_kafka(jit=plan.jit, heap=plan.heap))
        bootstrap = broker.bootstrap
        await create_topics(bootstrap, topics)
        writer = await stack.enter_async_context(roles(bootstrap, topics))
        watched = [topics[name] for name in WATCHED]
        now_runs: list[Clearing] = []

        def look() -> None:
            now_runs[-1].look()

        watch = await stack.enter_async_context(commit_watch(bootstrap, watched, look))
        fleet = _Fleet(plan, writer, watch, say)
        async with clearing(bootstrap, logs / "load", None) as service:
            now_runs.append(service)
            await fleet.load()
        loaded = fleet.number
        async with clearing(bootstrap, logs / "timed", profile) as service:
            now_runs.append(service)
            fleet.restored = await service.ready()
            say(f"restored in {fleet.restored[0]:.1f} s ({fleet.restored[1]:.1f} s of CPU)")
            for _ in range(plan.settle):
                await fleet.cycle()
            meter = CpuMeter({"clearing": service.pid, "broker": broker.pid})
            began = perf_counter()
            service.toggle_profile()
            await fleet.timed(service)
            service.toggle_profile()
            used, elapsed_s = meter.used(), perf_counter() - began
            memory_mib = service.memory_mib()
        say("reading what was committed")
        first = loaded + 1 + plan.settle
        bids = await fold_bids(bootstrap, topics, loaded + 1)
        last = await last_summaries(bootstrap, topics, first)
    changed_ppm = bids.changed_ppm_least(first)
    check_run(plan.jobs, sum(each.jobs_queued + each.jobs_running for each in last), changed_ppm)
    return figures_of(
        plan,
        fleet.samples,
        changed=fleet.changed,
        restored=fleet.restored,
        memory_mib=memory_mib,
        cpu_s=used,
        elapsed_s=elapsed_s,
        bids_changed_ppm_least=changed_ppm,
        prices_micro={each.market: each.reference_price_micro for each in last},
    )


def check_run(jobs: int, seen: int, changed_ppm: int) -> None:
    """Check that the cycles decided what they are to be timed for.

    Raises
    ------
    BenchError
        The markets saw other jobs than there are, or too few bids changed in some cycle.
    """
    if seen != jobs:
        raise BenchError(f"the markets saw {seen} jobs of {jobs}")
    if changed_ppm < LEAST_CHANGED_PPM:
        raise BenchError(f"in some cycle only {changed_ppm} ppm of the bids changed")


class _Fleet:
    """The inputs of the running service, step by step."""

    def __init__(
        self, plan: FleetPlan, writer: Roles, watch: CommitWatch, say: Callable[[str], None]
    ) -> None:
        cycles = plan.settle + plan.cycles
        self.changed = max(4, plan.jobs // CHANGED_PER_CYCLE)
        size = FleetSize(
            jobs=plan.jobs,
            teams=plan.teams,
            pools=plan.pools,
            markets=plan.markets,
            spare_jobs=cycles * self.changed,
        )
        self.workload = FleetWorkload(size, plan.seed)
        self.number = -1
        self.samples = Samples()
        self.restored = (0.0, 0.0)
        self._plan, self._writer, self._watch, self._say = plan, writer, watch, say

    async def load(self) -> None:
        """Write accounts and supply, then the queue in parts, and run the cycles of that."""
        began, jobs, writer = perf_counter(), self._plan.jobs, self._writer
        await self._step(writer.rows(map(emit, self.workload.documents())))
        for first in range(0, jobs, LOAD_BATCH):
            end = min(jobs, first + LOAD_BATCH)
            outputs = [*self.workload.queued(first, end, self.number + 1)]
            wallets = self.workload.balances() if end == jobs else ()
            await self._step(writer.rows([*outputs, *wallets]))
            self._say(f"{end:,} of {jobs:,} jobs queued after {perf_counter() - began:.0f} s")

    async def cycle(self) -> float:
        """Change jobs and wallets, then run a cycle; return the seconds of it."""
        changes = [*self.workload.changes(self.changed, self.number + 1)]
        return await self._step(self._writer.rows([*changes, *self.workload.balances()]))

    async def timed(self, service: Clearing) -> None:
        """Run the cycles that count."""
        counted = self._plan.settle
        before = await service.counted(counted)
        for done in range(1, self._plan.cycles + 1):
            latency_s = await self.cycle()
            now = await service.counted(counted + done)
            one = now.since(before, 1)
            before = now
            self.samples.add(self.number, latency_s, one.decide_s, one.commit_s)
            if done % SAY_EVERY == 0:
                self._say(f"cycle {done} of {self._plan.cycles}: {1000 * latency_s:,.0f} ms")

    async def _step(self, rows: Rows) -> float:
        self.number += 1
        barrier = Barrier(self.number, self.workload.time_ms(self.number))
        began = await self._writer.write(rows, barrier)
        times = await self._watch.wait(self.number)
        return max(times.values()) - began
