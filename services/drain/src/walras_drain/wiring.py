"""How the drain service is wired to the log, and what of it is on /metrics."""

import asyncio
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodeHealthReported, NodePublished
from walras_contracts.drains import (
    DrainabilityScored,
    DrainCommanded,
    DrainOrdered,
    DrainRequested,
    DrainSessionChanged,
    NotificationIssued,
    VacateRequested,
)
from walras_contracts.work import DrainStatusChanged, LeaseGranted, LeaseStatusChanged
from walras_drain.handlers import DrainStage
from walras_drain.settings import Settings
from walras_drain.stuck import Stuck, passed_ms, stuck_now
from walras_runtime.collecting import collect_between_steps
from walras_runtime.health import Health
from walras_runtime.records import Step, StepResult
from walras_runtime.service import run_stages
from walras_runtime.stage import Input, Stage, StageSpec
from walras_runtime.telemetry import Telemetry
from walras_runtime.watched import WatchedStage

Watch = Callable[[int, Mapping[str, Stuck], int], None]
"""Takes the number of a step, what is stuck behind it, and how long the step was (ms)."""


def build(settings: Settings, watch: Watch | None = None) -> StageSpec:
    """Return the stage's wiring; ``watch`` is shown what is stuck after every step."""
    interval_ms = settings.barrier_interval_ms()

    def make(_partition: int) -> Stage:
        stage = DrainStage(interval_ms)
        return stage if watch is None else watched(stage, watch)

    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(AccountsChanged.TOPIC, table=True),
            Input(NodePublished.TOPIC, table=True),
            Input(LeaseGranted.TOPIC, table=True),
            Input(VacateRequested.TOPIC),
            Input(LeaseStatusChanged.TOPIC),
            Input(DrainStatusChanged.TOPIC),
            Input(NodeHealthReported.TOPIC),
            Input(DrainOrdered.TOPIC),
        ),
        outputs=(
            DrainCommanded.TOPIC,
            DrainRequested.TOPIC,
            DrainSessionChanged.TOPIC,
            DrainabilityScored.TOPIC,
            NotificationIssued.TOPIC,
        ),
        build=make,
    )


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Run drain until told to stop, with what is stuck on /metrics."""
    collect_between_steps()
    watch = Metrics(telemetry.registry).show
    await run_stages(build(settings, watch), settings, stop, telemetry, health)


def watched(stage: DrainStage, watch: Watch) -> WatchedStage:
    """Return a stage of which what is stuck is shown after every step."""

    def step(given: Step) -> StepResult:
        clock = stage.state.clock
        last_ms = clock.last_ms
        result = stage.step(given)
        step_ms = passed_ms(last_ms, given.barrier.market_time_ms, clock.interval_ms)
        watch(given.barrier.number, stuck_now(stage.state), step_ms)
        return result

    return WatchedStage(stage, step)


class Metrics:
    """What is stuck now, and for how long in all; each step counts once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._step = -1
        self._total_ms: dict[str, int] = {}
        self._before: Mapping[str, Stuck] = {}
        self._seconds = Counter(
            "walras_drain_stuck_seconds",
            "Market time that nodes took beyond their time to be emptied (what=node), and that "
            "devices of ended leases were not free (what=part)",
            ["what"],
            registry=registry,
        )
        self._count = Gauge(
            "walras_drain_stuck", "Stuck nodes and parts of leases", ["what"], registry=registry
        )
        self._macc = Gauge(
            "walras_drain_stuck_macc", "Held by what is stuck", ["what"], registry=registry
        )

    def show(self, step: int, stuck: Mapping[str, Stuck], step_ms: int) -> None:
        """Take what is stuck behind a step.

        The time up to the step is that of what was stuck before it and still is, by count: one that
        comes where another goes is taken for the same.
        """
        is_new = step > self._step
        for what, now in stuck.items():
            self._count.labels(what).set(now.count)
            self._macc.labels(what).set(now.macc)
            seconds = self._seconds.labels(what)
            if is_new:
                was_ms = self._total_ms.get(what, 0)
                waited = min(now.count, self._before.get(what, Stuck()).count)
                total_ms = self._total_ms[what] = was_ms + waited * step_ms
                seconds.inc(total_ms // 1000 - was_ms // 1000)
        if is_new:
            self._step, self._before = step, dict(stuck)
