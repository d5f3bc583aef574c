"""What stands for intake, clearing and billing: a stage of the step loop that follows the plan.

Jobs and quotas at step n are those of the plan; no price is searched and nothing is paid. Once
it reads a demand of :data:`STOP_TEAM` it takes all quota back and changes nothing any more.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.chaos_drains.plan import Plan, PlannedJob
from tests.chaos_drains.terms import DEVICE_MACC, MARKET, POOL, TEAMS, Times
from walras_contracts.accounts import (
    AccountsChanged,
    PlatformDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.runs import EnvironmentVariable, RunSpec, WarningKind
from walras_runtime.records import Output, Record, StateChange, Step, StepResult, emit, tombstone
from walras_runtime.stage import Input, StageSpec

JOB: Final = Path(__file__).with_name("job.py")
STOP_TEAM: Final = "stop"
QUIET: Final = "quiet"
PRICE_MICRO: Final = 100_000
EVIDENCE_VARIABLE: Final = "CHAOS_EVIDENCE"
DEVICES_VARIABLE: Final = "CHAOS_DEVICES"
DRAINABILITY: Final = {"deaf": Drainability.RESTART, "stubborn": Drainability.NONE}


class MarketStage:
    """Writes what the plan says of a step, until it is told to stop.

    Parameters
    ----------
    plan
        Of the run.
    times
        Of the run.
    folders
        Variables that each job gets: where its evidence and its devices are.
    """

    def __init__(self, plan: Plan, times: Times, folders: Mapping[str, str]) -> None:
        self._plan = plan
        self._times = times
        self._folders = folders
        self._quiet = False

    def fold(self, record: Record) -> None:
        """Take nothing: there is no table."""

    def load(self, key: str, value: bytes) -> None:
        """Take back that it was told to stop."""
        del value
        self._quiet = self._quiet or key == QUIET

    def step(self, step: Step) -> StepResult:
        """Decide a step."""
        number, now_ms = step.barrier.number, step.barrier.market_time_ms
        if self._quiet:
            return StepResult()
        outputs = self._accounts() if number == 0 else []
        if any(record.key.startswith(f"{STOP_TEAM}/") for record in step.records["demand"]):
            self._quiet = True
            nothing = dict.fromkeys(TEAMS, (0, 0))
            return StepResult(
                [*outputs, *quotas(nothing, number, now_ms)], [StateChange(QUIET, b"1")]
            )
        for job, what in self._plan.jobs.get(number, ()):
            outputs.append(self._queued(job, what, now_ms))
        shares = self._plan.quotas.get(number)
        if shares is not None:
            outputs += quotas(shares, number, now_ms)
        return StepResult(outputs)

    def _accounts(self) -> list[Output]:
        teams = tuple(TeamAccount(team=team, income_local_per_hour=100) for team in TEAMS)
        pool = PoolDocument(pool=POOL, weight_micro_per_hour=10**9, teams=teams)
        platform = PlatformDocument(drains=self._times.drain_terms())
        return [
            emit(AccountsChanged(version=1, effective_ms=0, document=document))
            for document in (pool, platform)
        ]

    def _queued(self, job: PlannedJob, what: str, now_ms: int) -> Output:
        queued = JobQueued(
            team=job.team,
            pool=POOL,
            job=job.name,
            types=(MARKET,),
            size_macc=job.devices * DEVICE_MACC,
            gang=True,
            limit_micro=None,
            expected_run_ms=None,
            minimum_run_ms=0,
            drainability=DRAINABILITY.get(job.behaviour, Drainability.CHECKPOINT),
            deadline_ms=None,
            submitted_ms=now_ms,
            position=job.position,
            revision=0,
            cancelled=what == "cancelled",
            run=self._run(job),
        )
        if what == "goes":
            return tombstone(JobQueued, queued.record_key(), queued.partition_key())
        return emit(queued)

    def _run(self, job: PlannedJob) -> RunSpec:
        return RunSpec(
            command=(
                *(sys.executable, "-I", "-S", str(JOB)),
                *(job.behaviour, str(job.save_ms)),
            ),
            environment=tuple(
                EnvironmentVariable(name=name, value=value) for name, value in self._folders.items()
            ),
            warning=WarningKind.SIGNAL if job.position % 2 else WarningKind.FILE,
            checkpoint_ms=job.save_ms,
            stop_ms=100,
        )


def quotas(shares: Mapping[str, tuple[int, int]], cycle: int, now_ms: int) -> list[Output]:
    """Return the quota records of a division of the devices: bought, and for nothing."""
    return [
        emit(
            QuotaGranted(
                team=team,
                pool=POOL,
                cycle=cycle,
                market_time_ms=now_ms,
                markets=(
                    MarketQuota(
                        market=MARKET,
                        allocated_macc=bought * DEVICE_MACC,
                        opportunistic_macc=gift * DEVICE_MACC,
                        price_micro=PRICE_MICRO,
                    ),
                ),
            )
        )
        for team, (bought, gift) in sorted(shares.items())
    ]


def build_market(plan: Plan, times: Times, folders: Mapping[str, str]) -> StageSpec:
    """Return the wiring: it writes what intake, clearing and billing write for placement."""
    return StageSpec(
        service="clearing",
        inputs=(Input("demand"),),
        outputs=("accounts", "queue", "quotas", "budgets"),
        build=lambda _partition: MarketStage(plan, times, folders),
    )
