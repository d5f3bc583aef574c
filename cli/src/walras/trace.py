"""From a scenario and a seed to the events that the outside world writes in a replay.

Everything here is a pure function of (scenario, seed, trace). What the trace does not say about a
job is drawn from SHA-256 of (seed, job), so that a draw depends neither on the order of jobs nor on
how many hours are replayed.
"""

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from walras.scenario import Scenario, ScenarioError
from walras_contracts.accounts import (
    AccountsRequested,
    Document,
    MarketDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import JobSubmitted
from walras_contracts.quantities import PPM

COLUMNS = ("job_id", "tenant", "pool", "submit_s", "duration_s", "gpus")
MACC_PER_DEVICE = 1000
SHARED = "shared"
_DRAW_BYTES = 4
_DRAW_RANGE = 1 << (8 * _DRAW_BYTES)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A row of the trace: seconds from its origin, and accelerators."""

    job: str
    pool: str
    submit_s: int
    duration_s: int
    gpus: int

    @property
    def end_s(self) -> int:
        """End of the run as recorded."""
        return self.submit_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Interval:
    """Demand between two barriers: ``number`` is the barrier that closes it, at ``end_ms``."""

    number: int
    start_ms: int
    end_ms: int
    jobs: tuple[JobSubmitted, ...]


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """Counts about a replay, for its report.

    ``jobs_without_home`` counts jobs larger than the whole supply of each type they accept.
    """

    window_jobs: int
    initial_jobs: int
    initial_accelerators: int
    replayed_jobs: int
    accelerator_seconds: int
    window_seconds: int
    supply_devices: int
    own_devices: int
    largest_job_accelerators: int
    jobs_without_home: int
    devices_by_type: Mapping[str, int]
    weight_micro_per_hour: Mapping[str, int]


@dataclass(frozen=True)
class Replay:
    """All that is written into the market from outside.

    Barrier 0 stands at ``start_ms``, behind accounts and inventory; interval n ends with barrier n
    at ``start_ms + n × interval_ms``. Jobs already running at the start are in interval 1.
    """

    scenario: Scenario
    seed: int
    hours: int
    start_ms: int
    interval_ms: int
    accounts: tuple[AccountsRequested, ...]
    inventory: tuple[NodeObserved, ...]
    initial: tuple[JobSubmitted, ...]
    arrivals: tuple[JobSubmitted, ...]
    facts: ReplayFacts

    @property
    def cycles(self) -> int:
        """Intervals in the replay, and the number of its last barrier."""
        return self.hours * 3_600_000 // self.interval_ms

    @property
    def end_ms(self) -> int:
        """Market time of the last barrier."""
        return self.start_ms + self.cycles * self.interval_ms

    def intervals(self) -> Iterator[Interval]:
        """Yield the intervals 1 … ``cycles``, with the jobs of each in order of arrival."""
        pending = self.initial
        following = 0
        for number in range(1, self.cycles + 1):
            start_ms = self.start_ms + (number - 1) * self.interval_ms
            end_ms = start_ms + self.interval_ms
            first = following
            while following < len(self.arrivals) and self.arrivals[following].submitted_ms < end_ms:
                following += 1
            yield Interval(number, start_ms, end_ms, pending + self.arrivals[first:following])
            pending = ()


def load_window(scenario: Scenario, hours: int, seed: int) -> Replay:
    """Build the replay of the first ``hours`` hours of the scenario's window.

    Raises
    ------
    ScenarioError
        The trace cannot be read or is another file than the scenario names, ``hours`` lies outside
        the window, or the trace has a pool that the scenario does not describe.
    """
    window = scenario.trace
    if not 1 <= hours <= window.hours:
        raise ScenarioError(
            scenario.directory, [f"hours: must lie in 1 … {window.hours}, is {hours}"]
        )
    running, arriving = _window_jobs(scenario)
    _check_pools(scenario, running, arriving)
    load = _accelerator_seconds(scenario, running + arriving)
    devices = _devices(scenario, load)
    start_ms = window.origin_ms + window.window_start_s * 1000
    weights = _weights(scenario, load)
    draw = _Draw(scenario, seed)
    replay_end_s = window.window_start_s + hours * 3600
    initial = tuple(
        draw.submission(job, start_ms, job.end_s - window.window_start_s) for job in running
    )
    arrivals = tuple(
        draw.submission(job, window.origin_ms + job.submit_s * 1000, job.duration_s)
        for job in arriving
        if job.submit_s < replay_end_s
    )
    by_type = _total_by_type(devices)
    facts = ReplayFacts(
        window_jobs=len(arriving),
        initial_jobs=len(running),
        initial_accelerators=sum(job.gpus for job in running),
        replayed_jobs=len(initial) + len(arrivals),
        accelerator_seconds=sum(load.values()),
        window_seconds=window.window_end_s - window.window_start_s,
        supply_devices=sum(by_type.values()),
        own_devices=sum(n for (_, owner), n in devices.items() if owner != SHARED),
        largest_job_accelerators=max(job.gpus for job in running + arriving),
        jobs_without_home=sum(
            1
            for job in initial + arrivals
            if all(job.size_macc > by_type[t] * MACC_PER_DEVICE for t in job.types)
        ),
        devices_by_type=by_type,
        weight_micro_per_hour=weights,
    )
    return Replay(
        scenario=scenario,
        seed=seed,
        hours=hours,
        start_ms=start_ms,
        interval_ms=scenario.clock.interval_ms,
        accounts=_accounts(scenario, weights),
        inventory=_inventory(scenario, devices, start_ms),
        initial=initial,
        arrivals=arrivals,
        facts=facts,
    )


def _window_jobs(scenario: Scenario) -> tuple[list[TraceJob], list[TraceJob]]:
    """Return the jobs running when the window begins and those that arrive in it."""
    window = scenario.trace
    running: list[TraceJob] = []
    arriving: list[TraceJob] = []
    lines = _trace_lines(scenario)
    if tuple(lines[0].split(","))[: len(COLUMNS)] != COLUMNS:
        raise ScenarioError(scenario.directory / window.file, ["unexpected columns"])
    for line in lines[1:]:
        job, _, pool, submit, duration, gpus, *_ = line.split(",")
        submit_s = int(submit)
        if submit_s >= window.window_end_s:
            continue
        if submit_s >= window.window_start_s:
            arriving.append(TraceJob(job, pool, submit_s, int(duration), int(gpus)))
        elif submit_s + int(duration) > window.window_start_s:
            running.append(TraceJob(job, pool, submit_s, int(duration), int(gpus)))
    arriving.sort(key=lambda job: (job.submit_s, job.job))
    running.sort(key=lambda job: (job.submit_s, job.job))
    return running, arriving


def _trace_lines(scenario: Scenario) -> list[str]:
    path = scenario.directory / scenario.trace.file
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise ScenarioError(path, [f"cannot be read: {error}"]) from error
    digest = hashlib.sha256(packed).hexdigest()
    if digest != scenario.trace.sha256:
        raise ScenarioError(
            path, [f"has SHA-256 {digest}, the scenario names {scenario.trace.sha256}"]
        )
    return gzip.decompress(packed).decode("ascii").splitlines()


def _check_pools(scenario: Scenario, *jobs: list[TraceJob]) -> None:
    known = {pool.pool for pool in scenario.pools}
    missing = sorted({job.pool for group in jobs for job in group} - known)
    if missing:
        raise ScenarioError(scenario.directory, [f"$.pools: the trace has {', '.join(missing)}"])


def _accelerator_seconds(scenario: Scenario, jobs: Sequence[TraceJob]) -> dict[str, int]:
    """Return what each pool's jobs use within the whole window, run as recorded."""
    window = scenario.trace
    load = {pool.pool: 0 for pool in scenario.pools}
    for job in jobs:
        inside_s = min(job.end_s, window.window_end_s) - max(job.submit_s, window.window_start_s)
        load[job.pool] += job.gpus * inside_s
    return load


def _counted_load(scenario: Scenario, load: Mapping[str, int]) -> dict[str, int]:
    """Return the load by which pools are funded and equipped: measured, or stated."""
    total = sum(load.values())
    return {
        pool.pool: load[pool.pool]
        if pool.stated_share_ppm is None
        else total * pool.stated_share_ppm // PPM
        for pool in scenario.pools
    }


def _devices(scenario: Scenario, load: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Return devices by (type, owner): the mean load, part of each pool's own, the rest shared."""
    seconds = scenario.trace.window_end_s - scenario.trace.window_start_s
    shares = [(t.type, t.share_ppm) for t in scenario.supply.types]
    left = _apportion(sum(load.values()) // seconds, shares)
    devices: dict[tuple[str, str], int] = {}
    for pool, counted in _counted_load(scenario, load).items():
        own = counted * scenario.supply.own_share_ppm // (seconds * PPM)
        for name, count in _apportion(own, shares).items():
            devices[name, pool] = min(count, left[name])
            left[name] -= devices[name, pool]
    for name, count in left.items():
        devices[name, SHARED] = count
    return devices


def _apportion(total: int, shares: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Split a total by shares in ppm, largest remainder first, ties by order."""
    parts = {name: total * share_ppm // PPM for name, share_ppm in shares}
    remainder = [(-(total * share_ppm % PPM), i) for i, (_, share_ppm) in enumerate(shares)]
    for _, index in sorted(remainder)[: total - sum(parts.values())]:
        parts[shares[index][0]] += 1
    return parts


def _total_by_type(devices: Mapping[tuple[str, str], int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for (name, _), count in devices.items():
        total[name] += count
    return dict(total)


def _weights(scenario: Scenario, load: Mapping[str, int]) -> dict[str, int]:
    """Return each pool's market weight in µcr/h."""
    seconds = scenario.trace.window_end_s - scenario.trace.window_start_s
    counted = _counted_load(scenario, load)
    return {
        pool.pool: counted[pool.pool]
        * scenario.money.scale_micro_per_accelerator_hour
        * pool.weight_factor_ppm
        // (seconds * PPM)
        for pool in scenario.pools
    }


def _accounts(scenario: Scenario, weights: Mapping[str, int]) -> tuple[AccountsRequested, ...]:
    documents: list[Document] = [scenario.platform.document()]
    documents += [MarketDocument(market=t.type) for t in scenario.supply.types]
    documents += [
        PoolDocument(
            pool=pool.pool,
            weight_micro_per_hour=weights[pool.pool],
            leverage_ppm=pool.leverage_ppm,
            teams=tuple(
                TeamAccount(
                    team=team.team,
                    income_local_per_hour=team.income_local_per_hour,
                    leverage_ppm=pool.leverage_ppm,
                )
                for team in pool.teams
            ),
        )
        for pool in scenario.pools
    ]
    return tuple(AccountsRequested(document=document) for document in documents)


def _inventory(
    scenario: Scenario, devices: Mapping[tuple[str, str], int], observed_ms: int
) -> tuple[NodeObserved, ...]:
    """Return one node per type and owner: the flat pool of devices of this scenario."""
    return tuple(
        NodeObserved(
            node=f"{name}-{owner}",
            type=name,
            cell=scenario.supply.cell,
            devices=count,
            macc_per_device=MACC_PER_DEVICE,
            owner_pool=None if owner == SHARED else owner,
            urgent=False,
            observed_ms=observed_ms,
        )
        for (name, owner), count in sorted(devices.items())
        if count
    )


class _Draw:
    """Draws what the trace does not say about a job."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        jobs = scenario.jobs
        self._seed = seed
        self._limits = jobs.limits
        self._large = jobs.large_job_accelerators
        self._accepts = [(a.types, a.share_ppm) for a in jobs.accepts]
        self._minimum_runs = [(m.minimum_run_ms, m.share_ppm) for m in jobs.minimum_runs]
        self._drainability = [(d.declared, d.share_ppm) for d in jobs.drainability]
        self._teams = {
            pool.pool: [(team.team, team.job_share_ppm) for team in pool.teams]
            for pool in scenario.pools
        }

    def submission(self, job: TraceJob, submitted_ms: int, run_s: int) -> JobSubmitted:
        """Return the job as its team submits it, with ``run_s`` seconds to run."""
        digest = hashlib.sha256(f"{self._seed}/{job.job}".encode()).digest()
        draws = [
            int.from_bytes(digest[at : at + _DRAW_BYTES], "big")
            for at in range(0, len(digest), _DRAW_BYTES)
        ]
        teams = self._teams[job.pool]
        return JobSubmitted(
            team=teams[0][0] if job.gpus >= self._large else _pick(teams, draws[0]),
            job=job.job,
            types=_pick(self._accepts, draws[1]),
            size_macc=job.gpus * MACC_PER_DEVICE,
            gang=True,
            limit_micro=self._limit(draws[2], draws[3], draws[4]),
            expected_run_ms=run_s * 1000,
            minimum_run_ms=_pick(self._minimum_runs, draws[5]),
            drainability=_pick(self._drainability, draws[6]),
            submitted_ms=submitted_ms,
        )

    def _limit(self, kind: int, octave: int, within: int) -> int | None:
        limits = self._limits
        ppm = _ppm(kind)
        if ppm < limits.none_ppm:
            return None
        if ppm < limits.none_ppm + limits.zero_ppm:
            return 0
        lowest = limits.lowest_micro << (octave * limits.octaves // _DRAW_RANGE)
        return lowest + lowest * within // _DRAW_RANGE


def _ppm(draw: int) -> int:
    return draw * PPM // _DRAW_RANGE


def _pick(choices: Sequence[tuple[Value, int]], draw: int) -> Value:
    """Return the choice in whose part of the ppm range the draw falls."""
    ppm = _ppm(draw)
    for value, share_ppm in choices:
        ppm -= share_ppm
        if ppm < 0:
            return value
    return choices[-1][0]
