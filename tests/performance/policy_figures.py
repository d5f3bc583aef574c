"""What is compared of runs under different policies: figures of their reports, in integers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.performance.policy_replay import PolicyRun
from walras.report import words

MS_PER_MINUTE: Final = 60_000
PPM_PER_PERCENT: Final = 10_000
MS_PER_SECOND: Final = 1_000

Value = int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A column: where it stands in a report, what it is called, how it is told and drawn."""

    name: str
    path: str
    title: str
    unit: str
    told: Callable[[Value], str]
    per_unit: int
    """How many of what the report counts in make one of ``unit``."""


def _work(macc_ms: Value) -> str:
    return words.NONE if macc_ms is None else words.accelerator_seconds(macc_ms)


def _hours(macc_ms: Value) -> str:
    return words.NONE if macc_ms is None else words.accelerator_hours(macc_ms)


def _count(name: str, path: str, title: str, unit: str) -> Figure:
    return Figure(name, path, title, unit, words.count, 1)


def _wait(name: str, path: str, title: str) -> Figure:
    return Figure(name, path, title, "minutes", words.duration, MS_PER_MINUTE)


def _quota(name: str, path: str, title: str) -> Figure:
    return Figure(
        name, path, title, "accelerator-hours", _hours, words.MACC_MS_PER_ACCELERATOR_HOUR
    )


def _seconds_of(name: str, path: str, title: str) -> Figure:
    return Figure(name, path, title, "seconds", words.seconds, MS_PER_SECOND)


def _share(name: str, path: str, title: str) -> Figure:
    return Figure(name, path, title, "%", words.percent, PPM_PER_PERCENT)


def _price(name: str, path: str, title: str) -> Figure:
    return Figure(name, path, title, "credits / accelerator-hour", words.credits_of, words.MICRO)


_LOST: Final = "placement.leases.preempted"
GROUPS: Final[Mapping[str, Sequence[Figure]]] = {
    "Jobs and waits": (
        _count("finished", "jobs.finished", "Jobs finished", "jobs"),
        _count("waiting", "jobs.waiting_at_end", "Waiting at the end", "jobs"),
        _count("starts", "placement.waits.starts", "Starts", "starts"),
        _wait("wait_p50_ms", "jobs.wait_to_first_start_ms.p50", "First start: wait p50"),
        _wait("wait_p90_ms", "jobs.wait_to_first_start_ms.p90", "Wait p90"),
        _wait("wait_p99_ms", "jobs.wait_to_first_start_ms.p99", "Wait p99"),
        _wait("gang_wait_p90_ms", "placement.waits.wait_of_gangs_ms.p90", "Wait of gangs, p90"),
        _wait(
            "gang_wait_most_ms",
            "placement.total.gang_wait_most_ms",
            "Longest with quota",
        ),
        _count("deadline_misses", "placement.total.deadline_misses", "Deadline misses", "jobs"),
    ),
    "Quota, occupancy, prices": (
        _share("unspent_ppm", "placement.total.unspent_share_ppm", "Wasted quota"),
        _quota("unspent_macc_ms", "placement.total.unspent_macc_ms", "Wasted quota, acc·h"),
        _quota(
            "short_of_devices_macc_ms",
            "placement.total.unspent_why.short_of_devices_macc_ms",
            "of it no devices, acc·h",
        ),
        _count(
            "unplaced_cycles",
            "placement.total.market_cycles_with_unplaced_jobs",
            "Cycles with unplaced jobs",
            "cycles",
        ),
        _count("cuts", "cycles.cuts", "Demand cuts", "teams × cycles"),
        _share("occupancy_ppm", "occupancy.occupancy_ppm", "Occupancy"),
        _share("opportunistic_ppm", "occupancy.opportunistic_share_ppm", "of it at price 0"),
        _price("mean_paid_micro", "fairness.global_mean_price_micro", "Mean price paid"),
        _price("mean_price_micro", "prices.mean_micro", "Mean reference price"),
        _price("most_price_micro", "prices.maximum_micro", "Most reference price"),
    ),
    "Preemptions and drains": (
        _count("preemptions", f"{_LOST}.leases", "Preemptions", "leases"),
        Figure(
            "repeated_macc_ms",
            f"{_LOST}.repeated_macc_ms",
            "Lost, repeated acc·s",
            "accelerator-seconds",
            _work,
            words.MACC_MS_PER_ACCELERATOR_SECOND,
        ),
        _count("drains_begun", "drains.begun", "Drains begun", "sessions"),
        _count("drains_failed", "drains.failed", "Drains failed", "sessions"),
        _seconds_of("drain_p50_ms", "drains.time_to_free_ms.p50", "Time to free, p50"),
        _seconds_of("drain_p99_ms", "drains.time_to_free_ms.p99", "Time to free, p99"),
        _share("drain_used_p99_ppm", "drains.used_of_allowed_ppm.p99", "of the time allowed, p99"),
        _count("held_up", "drains.caps.sessions_held_up", "Held up by caps", "sessions"),
        _count(
            "preemption_cycles",
            "placement.total.preemption_cycles_detected",
            "Preemption cycles",
            "cycles",
        ),
    ),
}
FIGURES: Final = tuple(figure for group in GROUPS.values() for figure in group)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run and its figures by name; ``seconds`` is what it took on the machine."""

    run: PolicyRun
    seconds: int
    values: Mapping[str, Value]
    digests: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """Return the run as a part of the JSON document."""
        return {
            "name": self.run.name,
            "rounding": self.run.rounding.value,
            "retention_gap_ppm": self.run.retention_gap_ppm,
            "seconds": self.seconds,
            "figures": dict(self.values),
            "digests": dict(self.digests),
        }


def figures_of(run: PolicyRun, report: Mapping[str, Any]) -> RunFigures:
    """Return what is compared of a run's report."""
    prices = [found for found in report["prices"].values() if found["mean_micro"] is not None]
    means = sorted(found["mean_micro"] for found in prices)
    ended = report["drains"]["ended"]
    cuts = (sum(found["released"].values()) for found in report["cycles"]["markets"].values())
    flat: Mapping[str, Any] = {
        **report,
        "cycles": {"cuts": sum(cuts)},
        "prices": {
            "mean_micro": sum(means) // len(means) if means else None,
            "maximum_micro": max((found["maximum_micro"] for found in prices), default=None),
        },
        "drains": {
            **report["drains"],
            "failed": sum(n for end, n in ended.items() if end.startswith("failed")),
        },
    }
    return RunFigures(
        run,
        report["run"]["seconds"],
        {figure.name: _at(flat, figure.path) for figure in FIGURES},
        report["digests"],
    )


def same_decisions(runs: Sequence[RunFigures]) -> list[tuple[str, ...]]:
    """Return the names of runs that decided the same, in groups of at least two."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for found in runs:
        # Cycle records name the policies; prices and quotas are what was decided under them.
        decided = {topic: d for topic, d in found.digests.items() if topic != "cycles"}
        groups.setdefault(tuple(sorted(decided.items())), []).append(found.run.name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def _at(report: Mapping[str, Any], path: str) -> Value:
    found: Any = report
    for name in path.split("."):
        found = found[name]
    assert found is None or isinstance(found, int)
    return found
