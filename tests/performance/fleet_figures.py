"""The figures of the whole cycle at fleet scale, with the bound that they are held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.performance.samples import p99, percentile
from walras_launcher.kafka import Jit

BOUND_JOBS = 1_000_000
P50_BOUND_MS = 1_000.0
P99_BOUND_MS = 3_000.0
KEY_FRAME_EVERY = 60
"""Cycles between two key frames (services/clearing)."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Size of the measurement: the market, cycles to settle, cycles to time.

    ``jit``: how the broker is compiled; ``c1`` starts sooner and is slower.
    """

    jobs: int
    teams: int
    pools: int
    markets: int
    settle: int
    cycles: int
    seed: int
    jit: Jit = "full"
    heap: str = "1g"


@dataclass(slots=True)
class Samples:
    """Of each timed cycle its number, and seconds: in all, deciding, committing."""

    cycles: list[int] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    decide: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)

    def add(self, cycle: int, total_s: float, decide_s: float, commit_s: float) -> None:
        """Add a cycle."""
        self.cycles.append(cycle)
        self.total.append(total_s)
        self.decide.append(decide_s)
        self.commit.append(commit_s)

    @property
    def deliver(self) -> list[float]:
        """What is neither deciding nor committing: delivery to the service and to the reader."""
        rows = zip(self.total, self.decide, self.commit, strict=True)
        return [total - decide - commit for total, decide, commit in rows]


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """Barrier → committed prices and quotas; times in ms, memory in MiB.

    ``p99_ms`` is null where fewer than 100 cycles were timed. ``spread_percent`` is (most - least)
    / p50 of the cycles without a key frame; ``key_frames_ms`` are those with one. ``decide`` and
    ``commit`` are what the service measured itself, ``deliver`` is the rest. ``restore_s`` is from
    the start of a process to its readiness. ``others_cores`` is what programs that do not belong
    to the run kept busy.
    """

    jobs: int
    teams: int
    pools: int
    markets: int
    cycles: int
    changed_jobs_per_cycle: int
    bids_changed_ppm_least: int
    p50_ms: float
    p95_ms: float
    p99_ms: float | None
    most_ms: float
    spread_percent: float
    key_frames_ms: tuple[float, ...]
    decide_p50_ms: float
    decide_most_ms: float
    commit_p50_ms: float
    commit_most_ms: float
    deliver_p50_ms: float
    cpu_ms_per_cycle: Mapping[str, float]
    others_cores: float
    memory_mib: float
    memory_most_mib: float
    restore_s: float
    restore_cpu_s: float
    prices_micro: Mapping[str, int | None]
    bound: Literal["met", "missed", "not measured"]
    why: str


def figures_of(
    plan: FleetPlan,
    samples: Samples,
    *,
    changed: int,
    restored: tuple[float, float],
    memory_mib: tuple[float, float],
    cpu_s: Mapping[str, float],
    elapsed_s: float,
    bids_changed_ppm_least: int,
    prices_micro: Mapping[str, int | None],
) -> FleetFigures:
    """Return the figures of a run.

    Parameters
    ----------
    restored
        Seconds and CPU seconds until the restarted service was ready.
    memory_mib
        Resident memory of the service at the end, and the most that it was.
    cpu_s
        CPU seconds of each process in the timed cycles, ``others`` among them.
    """
    by_cycle = dict(zip(samples.cycles, samples.total, strict=True))
    keys = [s for cycle, s in by_cycle.items() if cycle % KEY_FRAME_EVERY == 0]
    ordinary = [s for cycle, s in by_cycle.items() if cycle % KEY_FRAME_EVERY] or keys
    p50_s, p99_s = percentile(samples.total, 50), p99(samples.total)
    others = cpu_s["others"]
    bound, why = _held(plan.jobs, 1000 * p50_s, None if p99_s is None else 1000 * p99_s)
    return FleetFigures(
        jobs=plan.jobs,
        teams=plan.teams,
        pools=plan.pools,
        markets=plan.markets,
        cycles=plan.cycles,
        changed_jobs_per_cycle=changed,
        bids_changed_ppm_least=bids_changed_ppm_least,
        p50_ms=_ms(p50_s),
        p95_ms=_ms(percentile(samples.total, 95)),
        p99_ms=None if p99_s is None else _ms(p99_s),
        most_ms=_ms(max(samples.total)),
        spread_percent=round(100 * (max(ordinary) - min(ordinary)) / p50_s, 1),
        key_frames_ms=tuple(map(_ms, keys)),
        decide_p50_ms=_ms(percentile(samples.decide, 50)),
        decide_most_ms=_ms(max(samples.decide)),
        commit_p50_ms=_ms(percentile(samples.commit, 50)),
        commit_most_ms=_ms(max(samples.commit)),
        deliver_p50_ms=_ms(percentile(samples.deliver, 50)),
        cpu_ms_per_cycle={
            name: _ms(used / plan.cycles) for name, used in cpu_s.items() if name != "others"
        },
        others_cores=round(others / elapsed_s, 2),
        memory_mib=round(memory_mib[0]),
        memory_most_mib=round(memory_mib[1]),
        restore_s=round(restored[0], 2),
        restore_cpu_s=round(restored[1], 2),
        prices_micro=prices_micro,
        bound=bound,
        why=why,
    )


def _held(
    jobs: int, p50_ms: float, p99_ms: float | None
) -> tuple[Literal["met", "missed", "not measured"], str]:
    if jobs < BOUND_JOBS:
        return "not measured", f"{jobs} jobs, not {BOUND_JOBS}"
    if p99_ms is None:
        return "not measured", "too few cycles for a p99"
    over = [
        f"{name} {found:.0f} ms ≥ {bound:.0f} ms"
        for name, found, bound in (("p50", p50_ms, P50_BOUND_MS), ("p99", p99_ms, P99_BOUND_MS))
        if found >= bound
    ]
    if over:
        return "missed", "; ".join(over)
    return "met", f"p50 < {P50_BOUND_MS:.0f} ms and p99 < {P99_BOUND_MS:.0f} ms"


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)
