"""All judges over one history, and what happened in it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.chaos_drains import judge_leases, judge_runs, judge_sessions, judge_usage
from tests.chaos_drains.history import History
from walras_contracts.capacity import NodePublished
from walras_contracts.drains import VacateRequested
from walras_contracts.work import LeaseGranted, UsageMetered

Judge = Callable[[History], list[str]]
JUDGES: Final[Mapping[str, Judge]] = {
    "outlived its holder": judge_leases.outlived,
    "released early": judge_leases.released_early,
    "ran without a lease": judge_leases.running_without_lease,
    "held twice": judge_leases.held_twice,
    "over supply": judge_leases.over_supply,
    "ran twice": judge_runs.running_twice,
    "started twice": judge_runs.started_twice,
    "use numbered wrong": judge_usage.numbered_wrong,
    "use overlaps or is missing": judge_usage.overlaps_and_gaps,
    "not metered": judge_usage.not_metered,
    "drain does not end": judge_sessions.endless,
    "freed wrong": judge_sessions.freed_wrong,
    "never freed": judge_sessions.never_freed,
    "freed too soon": judge_sessions.freed_too_soon,
    "alive when freed": judge_sessions.alive_when_freed,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found by each judge, and figures of what happened."""

    faults: Mapping[str, list[str]]
    figures: Mapping[str, int]
    ends: Mapping[str, int]
    """Drains, by how they ended."""
    reasons: Mapping[str, int]
    """Leases that were asked to leave, by why."""
    outcomes: Mapping[str, int]
    """Parts, by how they were freed."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.faults.values())

    def lines(self) -> list[str]:
        """Return all faults."""
        return [f"{name}: {fault}" for name, found in self.faults.items() for fault in found]


def judge(history: History) -> Verdict:
    """Judge a history."""
    freed = judge_sessions.first_freed(history).values()
    return Verdict(
        faults={name: found(history) for name, found in JUDGES.items()},
        figures={
            "steps": len(history.barriers),
            "leases": len({grant.lease for _, grant in history.of(LeaseGranted)}),
            "gangs over nodes": len({g.lease for _, g in history.of(LeaseGranted) if g.parts > 1}),
            "nodes lost": sum(node.lost for _, node in history.of(NodePublished)),
            "parts lost with their node": judge_leases.lost_parts(history),
            "longest silence under a lease, ms": judge_leases.longest_silence_ms(history),
            "processes": len(history.lives),
            "usage records": sum(1 for _ in history.of(UsageMetered)),
            "largest gap of use, ms": judge_usage.largest_gap_ms(history),
            "drains begun": judge_sessions.begun(history),
        },
        ends=judge_sessions.ends(history),
        reasons=Counter(event.reason.value for _, event in history.of(VacateRequested)),
        outcomes=Counter(status.outcome.value for _, status in freed),
    )
