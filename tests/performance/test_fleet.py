"""The fleet bench draws what it says it draws, and notices a run that did not do its work."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.performance.fleet_cycle import check_run
from tests.performance.fleet_figures import FleetFigures, FleetPlan, Samples, figures_of
from tests.performance.fleet_log import BidFold
from tests.performance.fleet_workload import FleetSize, FleetWorkload
from tests.performance.machine import ROOT
from tests.performance.outside import BenchError
from walras_contracts.demand import JobQueued
from walras_contracts.market import CycleFramed
from walras_contracts.money import BalancePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import JobStatusChanged
from walras_runtime.records import Output

SIZE = FleetSize(jobs=1_000, teams=50, pools=5, markets=2, spare_jobs=300)


def drawn(seed: int) -> list[Output]:
    workload = FleetWorkload(SIZE, seed)
    outputs = [*workload.queued(0, SIZE.jobs, 1), *workload.balances()]
    for barrier in (2, 3):
        outputs += [*workload.changes(100, barrier), *workload.balances()]
    return outputs


def test_a_fleet_is_a_function_of_its_seed() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_each_cycle_writes_the_promised_number_of_queue_records() -> None:
    workload = FleetWorkload(SIZE, 1)
    list(workload.queued(0, SIZE.jobs, 1))
    for barrier in range(2, 8):
        queue = [o for o in workload.changes(100, barrier) if o.type == JobQueued.TYPE]
        assert len(queue) == len({output.key for output in queue}) == 100
        assert sum(output.payload is None for output in queue) == 25


def test_the_queue_and_what_runs_keep_their_lengths() -> None:
    queue: set[str] = set()
    running: set[str] = set()
    first_running = 0
    workload = FleetWorkload(SIZE, 1)
    steps = [[*workload.queued(0, SIZE.jobs, 1)]]
    steps += [[*workload.changes(100, barrier)] for barrier in range(2, 10)]
    for outputs in steps:
        for output in outputs:
            table = {JobQueued.TYPE: queue, JobStatusChanged.TYPE: running}[output.type]
            (table.discard if output.payload is None else table.add)(output.key)
        assert len(queue) == SIZE.jobs
        assert running <= queue
        first_running = first_running or len(running)
        assert len(running) == first_running
    assert 0.3 * SIZE.jobs < first_running < 0.5 * SIZE.jobs


def test_every_wallet_changes_in_every_cycle() -> None:
    workload = FleetWorkload(SIZE, 1)
    before: dict[str, int] = {}
    for _ in range(20):
        balances = [
            BalancePublished.model_validate_json(o.payload or b"") for o in workload.balances()
        ]
        now = {balance.team: balance.wallet_micro for balance in balances}
        assert len(now) == SIZE.teams
        assert all(now[team] != wallet for team, wallet in before.items())
        before = now


def frame(cycle: int, bids: dict[str, int], kind: str = "changes") -> CycleFramed:
    return CycleFramed.model_validate(
        {
            "market": "m",
            "cycle": cycle,
            "market_time_ms": 1,
            "kind": kind,
            "part": 0,
            "parts": 1,
            "job_keys": (),
            "job_sizes_macc": (),
            "job_limits_micro": (),
            "removed_jobs": (),
            "removed_teams": (),
            "teams": tuple(bids),
            "team_pools": ("p",) * len(bids),
            "bids_micro_per_hour": tuple(bids.values()),
            "allocated_macc": (0,) * len(bids),
            "opportunistic_macc": (0,) * len(bids),
        }
    )


def test_bids_that_did_not_change_are_found_in_the_frames() -> None:
    fold = BidFold()
    fold.take(frame(0, {"a": 1, "b": 2, "c": 3, "d": 4}, "key"))
    fold.take(frame(1, {"a": 2, "b": 3, "c": 4, "d": 5}))
    assert fold.changed_ppm_least(1) == PPM
    # d is not in the frame, b is framed for another reason than its bid.
    fold.take(frame(2, {"a": 3, "b": 3, "c": 5}))
    assert fold.changed_ppm_least(1) == PPM // 2


def test_a_run_whose_bids_stood_still_or_whose_jobs_are_missing_gives_no_figures() -> None:
    check_run(100, 100, 990_000)
    with pytest.raises(BenchError, match="989999 ppm"):
        check_run(100, 100, 989_999)
    with pytest.raises(BenchError, match="99 jobs of 100"):
        check_run(100, 99, PPM)


def figures(jobs: int, total: list[float]) -> FleetFigures:
    plan = FleetPlan(jobs, 10, 2, 1, settle=1, cycles=len(total), seed=1)
    samples = Samples()
    for cycle, seconds in enumerate(total, 1):
        samples.add(cycle, seconds, seconds / 2, seconds / 4)
    return figures_of(
        plan,
        samples,
        changed=jobs // 100,
        restored=(1.0, 1.0),
        memory_mib=(1.0, 2.0),
        cpu_s={"clearing": 1.0, "others": 0.5},
        elapsed_s=10.0,
        bids_changed_ppm_least=PPM,
        prices_micro={"m": 1},
    )


@pytest.mark.parametrize(
    ("jobs", "total", "bound"),
    [
        (1_000_000, [0.9] * 118 + [2.9, 2.9], "met"),
        (1_000_000, [1.0] * 120, "missed"),
        (1_000_000, [0.5] * 118 + [3.0, 3.0], "missed"),
        (1_000_000, [0.5] * 99, "not measured"),
        (999_999, [0.5] * 120, "not measured"),
    ],
)
def test_the_bound_is_a_second_at_the_median_and_three_at_p99_with_a_million_jobs(
    jobs: int, total: list[float], bound: str
) -> None:
    assert figures(jobs, total).bound == bound


def test_cycles_with_a_key_frame_are_told_apart() -> None:
    found = figures(1_000_000, [0.5] * 59 + [2.0] + [0.6] * 59 + [2.5])
    assert found.key_frames_ms == (2000.0, 2500.0)
    assert found.most_ms == 2500.0
    assert (found.p50_ms, found.spread_percent) == (600.0, 16.7)


BUSY = """
import os, signal, sys, time
from pathlib import Path
from tests.performance.fleet_profile import Sampler
sampler = Sampler(Path(sys.argv[1]))
signal.signal(signal.SIGPROF, sampler.sample)
signal.signal(signal.SIGUSR1, sampler.toggle)

def work(until):
    while time.process_time() < until:
        sum(range(1_000))

def before(): work(time.process_time() + 0.2)
def during(): work(time.process_time() + 0.4)

before()
os.kill(os.getpid(), signal.SIGUSR1)
during()
os.kill(os.getpid(), signal.SIGUSR1)
before()
"""


def test_the_profile_holds_the_stacks_of_the_time_that_it_was_on(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    subprocess.run([sys.executable, "-c", BUSY, str(file)], cwd=ROOT, check=True, timeout=60)
    lines = [line.rpartition(" ") for line in file.read_text("utf-8").splitlines()]
    seen = {stack: int(count) for stack, _, count in lines}
    of_work = sum(n for stack, n in seen.items() if "during;<string>.work" in stack)
    assert of_work >= 10
    assert not any("before" in stack for stack in seen)
