"""How placement is wired to the log, and what of its figures is on /metrics."""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodePublished
from walras_contracts.demand import JobQueued
from walras_contracts.drains import DrainabilityScored, DrainRequested, VacateRequested
from walras_contracts.market import QuotaGranted
from walras_contracts.money import BudgetPublished
from walras_contracts.placing import PlacementMeasured
from walras_contracts.work import (
    DrainStatusChanged,
    JobStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
)
from walras_placement.handlers import PlacementStage
from walras_placement.settings import Settings
from walras_runtime.collecting import collect_between_steps
from walras_runtime.health import Health
from walras_runtime.records import Step, StepResult
from walras_runtime.service import run_stages
from walras_runtime.stage import Input, Stage, StageSpec
from walras_runtime.telemetry import Telemetry
from walras_runtime.watched import WatchedStage

Watch = Callable[[Sequence[PlacementMeasured]], None]


def build(settings: Settings, watch: Watch | None = None) -> StageSpec:
    """Return the stage's wiring; ``watch`` is shown the figures of every cycle."""
    rules = settings.rules()

    def make(_partition: int) -> Stage:
        stage = PlacementStage(rules)
        return stage if watch is None else watched(stage, watch)

    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(AccountsChanged.TOPIC, table=True),
            Input(NodePublished.TOPIC, table=True),
            Input(QuotaGranted.TOPIC, table=True),
            Input(JobQueued.TOPIC, table=True),
            Input(LeaseStatusChanged.TOPIC),
            Input(DrainStatusChanged.TOPIC),
            Input(DrainRequested.TOPIC, lag=1),
            Input(BudgetPublished.TOPIC, lag=1, table=True),
            Input(DrainabilityScored.TOPIC, lag=1, table=True),
        ),
        outputs=(
            LeaseGranted.TOPIC,
            VacateRequested.TOPIC,
            JobStatusChanged.TOPIC,
            PlacementMeasured.TOPIC,
        ),
        build=make,
    )


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Run placement until told to stop, with its figures on /metrics."""
    collect_between_steps()
    watch = Metrics(telemetry.registry).show
    await run_stages(build(settings, watch), settings, stop, telemetry, health)


def watched(stage: PlacementStage, watch: Watch) -> WatchedStage:
    """Return a stage whose figures are shown as they come."""

    def step(given: Step) -> StepResult:
        before = stage.measured
        result = stage.step(given)
        if stage.measured is not before:
            watch(stage.measured)
        return result

    return WatchedStage(stage, step)


class Metrics:
    """The figures of each market; counters go on with each cycle, told once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cycle = -1
        self._markets: set[str] = set()
        self._gauges = {
            name: Gauge(f"walras_placement_{name}", text, ["market"], registry=registry)
            for name, text in (
                ("held_macc", "Held by jobs"),
                ("remnant_macc", "Held by what is left of lost or failed leases"),
                ("reserved_macc", "Free, and kept for jobs that wait for more"),
                ("unspent_macc", "Bought quota that is not occupied"),
                ("unplaced_macc", "Needed by jobs with quota and without devices"),
                ("unplaced_jobs", "Jobs with quota and without devices"),
                ("gangs_waiting", "Gangs among them"),
                ("pending_jobs", "Jobs that wait"),
                ("parked_jobs", "Jobs that wait because they failed to start"),
            )
        }
        self._gang_wait = Gauge(
            "walras_placement_gang_wait_seconds",
            "How long the gang has been pending that waits longest",
            ["market"],
            registry=registry,
        )
        self._counters = {
            name: Counter(f"walras_{metric}", text, ["market"], registry=registry)
            for name, metric, text in (
                ("started_jobs", "jobs_started", "Jobs that were given devices"),
                ("vacated_jobs", "vacates", "Jobs that were asked to leave"),
                ("kept_jobs", "vacates_withdrawn", "Jobs that may stay after all"),
                ("deadline_misses", "deadline_misses", "Jobs not finished by their deadline"),
                (
                    "preemption_cycles_detected",
                    "preemption_cycles_detected",
                    "Pairs of jobs that took each other's devices again and again",
                ),
            )
        }

    def show(self, measured: Sequence[PlacementMeasured]) -> None:
        """Take the figures of a cycle; those of one that is decided again change nothing twice."""
        is_new = any(each.cycle > self._cycle for each in measured)
        if measured:
            self._forget(self._markets - {each.market for each in measured})
            self._markets = {each.market for each in measured}
        for each in measured:
            for name, gauge in self._gauges.items():
                gauge.labels(each.market).set(getattr(each, name))
            self._gang_wait.labels(each.market).set(each.gang_wait_ms // 1000)
            if is_new:
                for name, counter in self._counters.items():
                    counter.labels(each.market).inc(getattr(each, name))
            self._cycle = max(self._cycle, each.cycle)

    def _forget(self, markets: set[str]) -> None:
        """Say nothing more of markets that are gone; what was counted stays."""
        for market in sorted(markets):
            for gauge in (*self._gauges.values(), self._gang_wait):
                gauge.remove(market)
