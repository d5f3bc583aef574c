"""A small history that is as it must be, for the canaries of the judges to falsify.

Jobs `a` and `b` run on nodes `n1` and `n2`. `a` is drained and freed, and `c` gets its devices. The
agent of `n2` falls silent: `b` is given up after the timeout, and starts again on `n1`. The agent
comes back, and frees what `b` had.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.chaos_drains.history import Entry, History, Life
from tests.chaos_drains.leases import Part
from tests.chaos_drains.terms import DEVICE_MACC, DEVICES, MARKET, POOL, USUAL
from walras_contracts.accounts import Rounding
from walras_contracts.capacity import NodeHealthReported, NodePublished, NodeState
from walras_contracts.drains import (
    DrainSessionChanged,
    SessionState,
    VacateReason,
    VacateRequested,
)
from walras_contracts.event import Event
from walras_contracts.placing import PlacementMeasured
from walras_contracts.work import (
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)

START_MS: Final = 1_000_000
TEAM: Final = "alder"
STEPS: Final = 40
SILENT_FROM, LOST_AT, BACK_AT = 12, 24, 30
"""Steps: the last report of `n2` is in the one before the first."""


def time_ms(step: int) -> int:
    """Return the market time of a step; the log has its records 50 ms later."""
    return START_MS + step * USUAL.interval_ms


@dataclass
class Told:
    """A history under way."""

    history: History = field(default_factory=History)
    sizes: dict[str, int] = field(default_factory=dict)
    """In devices, of the parts that hold some."""
    reserved_macc: int = 0

    def add(self, step: int, event: Event) -> None:
        """Add a record to a step."""
        entries = self.history.entries.setdefault(event.TOPIC, [])
        name = f"{event.TOPIC}/{len(entries)}"
        entries.append(Entry(step, time_ms(step) + 50, event.record_key(), event, name))

    def node(self, step: int, name: str, *, lost: bool = False) -> None:
        """Say what a node is."""
        self.add(
            step,
            NodePublished(
                node=name,
                type=MARKET,
                cell="here",
                devices=DEVICES,
                macc_per_device=DEVICE_MACC,
                owner_pool=None,
                withheld_devices=(),
                state=NodeState.ACTIVE,
                lost=lost,
            ),
        )

    def grant(self, step: int, job: str, lease: str, node: str, devices: tuple[int, ...]) -> None:
        """Grant a part, and say that the job runs."""
        self.sizes[f"{lease}/{node}"] = len(devices)
        self.add(
            step,
            LeaseGranted(
                lease=lease,
                node=node,
                part=0,
                parts=1,
                attempt=1,
                job=job,
                team=TEAM,
                pool=POOL,
                market=MARKET,
                work_class=WorkClass.MARKET,
                devices=devices,
                size_macc=len(devices) * DEVICE_MACC,
                limit_micro=None,
                granted_ms=time_ms(step),
                remaining_run_ms=None,
            ),
        )
        self.job(step, job, JobState.RUNNING, lease)

    def job(self, step: int, job: str, state: JobState, lease: str | None) -> None:
        """Say where a job stands."""
        self.add(
            step,
            JobStatusChanged(
                team=TEAM,
                job=job,
                state=state,
                reason="",
                market=MARKET,
                lease=lease,
                work_class=None,
                attempt=1,
                remaining_run_ms=None,
                waited_ms=0,
                started_ms=None,
                changed_ms=time_ms(step),
                needed_macc=0,
                available_macc=0,
            ),
        )

    def status(
        self,
        step: int,
        job: str,
        part: Part,
        state: LeaseState,
        outcome: LeaseOutcome = LeaseOutcome.NONE,
    ) -> None:
        """Let the agent say where a part stands."""
        lease, node = part
        if state is LeaseState.FREED:
            self.sizes.pop(f"{lease}/{node}", None)
        self.add(
            step,
            LeaseStatusChanged(
                lease=lease,
                node=node,
                team=TEAM,
                job=job,
                state=state,
                outcome=outcome,
                remaining_run_ms=None,
                at_ms=time_ms(step) - 100,
            ),
        )

    def figures(self, step: int) -> None:
        """Let placement say what is held."""
        held_macc = sum(self.sizes.values()) * DEVICE_MACC
        numbers = dict.fromkeys(
            (
                *("remnant_macc", "bought_macc", "unspent_macc", "opportunistic_macc"),
                *(
                    "pending_jobs",
                    "parked_jobs",
                    "held_back_jobs",
                    "unplaced_jobs",
                    "unplaced_macc",
                ),
                *("gangs_waiting", "gang_wait_ms", "started_jobs", "started_wait_ms"),
                *("vacated_jobs", "kept_jobs", "deadline_misses", "preemption_cycles_detected"),
            ),
            0,
        )
        self.add(
            step,
            PlacementMeasured.model_validate(
                {
                    **numbers,
                    "market": MARKET,
                    "cycle": step,
                    "market_time_ms": time_ms(step),
                    "rounding": Rounding.BACKFILL,
                    "usable_macc": 8_000,
                    "held_macc": held_macc,
                    "reserved_macc": self.reserved_macc,
                    "cells": (),
                    "unplaced": (),
                    "preemption_cycles": (),
                    "stuck": (),
                }
            ),
        )

    def session(self, step: int, job: str, lease: str, state: SessionState) -> None:
        """Say where the drain of a lease on `n1` stands."""
        self.add(
            step,
            DrainSessionChanged(
                session=f"of-{lease}",
                lease=lease,
                team=TEAM,
                pool=POOL,
                job=job,
                nodes=("n1",),
                size_macc=2 * DEVICE_MACC,
                reason=VacateReason.QUOTA_LOST,
                state=state,
                outcome="",
                blockers=(),
                beyond_budget=False,
                opened_ms=time_ms(6),
                commanded_ms=time_ms(6),
                deadline_ms=time_ms(14),
                changed_ms=time_ms(step),
            ),
        )

    def vacate(self, step: int, job: str, lease: str) -> None:
        """Ask a lease to leave."""
        self.add(
            step,
            VacateRequested(
                lease=lease,
                job=job,
                team=TEAM,
                reason=VacateReason.QUOTA_LOST,
                requested_ms=time_ms(step),
            ),
        )

    def used(self, job: str, part: Part, steps: tuple[int, int], pid: int) -> None:
        """Add the process of a part, from behind a step to before another, and its use."""
        (lease, node), (start, end) = part, steps
        start_ms, end_ms = time_ms(start) + 100, time_ms(end) - 200
        self.history.lives.append(Life(TEAM, job, lease, node, pid, True, start_ms, end_ms))
        half_ms = (start_ms + end_ms) // 2
        for seq, (a_ms, b_ms) in enumerate(((start_ms, half_ms), (half_ms, end_ms + 100))):
            self.add(
                end,
                UsageMetered(
                    lease=lease,
                    node=node,
                    attempt=1,
                    seq=seq,
                    team=TEAM,
                    pool=POOL,
                    job=job,
                    market=MARKET,
                    quantity_macc=DEVICE_MACC,
                    start_ms=a_ms,
                    end_ms=b_ms,
                    work_class=WorkClass.MARKET,
                    billable=True,
                    limit_micro=None,
                    tariff_ppm=1_000_000,
                ),
            )


def rehearse() -> Told:
    """Return the history, of which nothing is wrong."""
    told = Told()
    told.history.barriers = {step: time_ms(step) for step in range(STEPS)}
    for name in ("n1", "n2"):
        told.node(0, name)
    deeds = _deeds()
    for step in range(STEPS):
        for node in ("n1", "n2"):
            if node == "n1" or not SILENT_FROM <= step < BACK_AT:
                told.add(
                    step,
                    NodeHealthReported(
                        node=node, unhealthy_devices=(), reported_ms=time_ms(step) - 1
                    ),
                )
        for deed in deeds.get(step, ()):
            getattr(told, deed[0])(step, *deed[1:])
        told.figures(step)
    told.used("a", ("a1", "n1"), (3, 8), 11)
    told.used("c", ("c1", "n1"), (10, 34), 12)
    told.used("b", ("b2", "n1"), (26, 34), 13)
    # The keeper ended it when its agent was gone; its use is metered until it was freed.
    told.used("b", ("b1", "n2"), (3, 31), 14)
    lives = told.history.lives
    lives[-1] = replace(lives[-1], last_ms=time_ms(20))
    return told


def _deeds() -> dict[int, list[tuple[Any, ...]]]:
    freed, lost = (LeaseState.FREED, LeaseOutcome.VACATED), (LeaseState.FREED, LeaseOutcome.LOST)
    return {
        2: [("grant", "a", "a1", "n1", (0, 1)), ("grant", "b", "b1", "n2", (0,))],
        6: [
            ("vacate", "a", "a1"),
            ("job", "a", JobState.DRAINING, "a1"),
            ("session", "a", "a1", SessionState.WARNED),
        ],
        8: [
            ("status", "a", ("a1", "n1"), *freed),
            ("job", "a", JobState.PENDING, None),
            ("session", "a", "a1", SessionState.FREED),
        ],
        9: [("grant", "c", "c1", "n1", (0, 1))],
        LOST_AT: [("job", "b", JobState.PENDING, None)],
        LOST_AT + 1: [("grant", "b", "b2", "n1", (3,))],
        31: [("status", "b", ("b1", "n2"), *lost)],
        34: [
            ("status", "c", ("c1", "n1"), *freed),
            ("status", "b", ("b2", "n1"), *freed),
            ("job", "c", JobState.FINISHED, None),
            ("job", "b", JobState.FINISHED, None),
        ],
    }
