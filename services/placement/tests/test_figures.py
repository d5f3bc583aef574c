"""The figures of a cycle: what quota could not be placed, where, in which shape, how long."""

from typing import Any

import pytest

from walras_contracts.accounts import Rounding
from walras_contracts.placing import CELLS_MAX, STUCK_MAX, UNPLACED_MAX

KIBIBYTE = 1024


def test_quota_without_devices_is_told_by_cell_and_shape(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        *(kit.node(f"n{n}", 4, domain=f"rack{n}", cell=f"c{n // 2}") for n in range(4)),
        kit.quota("t1", a=(12, 0, 5)),
        *(bench.job(f"r{number}", 3) for number in range(4)),
    )
    bench.step(
        kit.quota("t2", a=(9, 0, 5)),
        bench.job("g1", 3, team="t2"),
        bench.job("g2", 3, team="t2"),
        bench.job("one", 1, team="t2"),
        bench.job("four", 4, team="t3"),
    )
    for _ in range(2):
        bench.step()
    figures = bench.figures["a"]

    assert [(cell.cell, cell.open_macc, cell.largest_macc) for cell in figures.cells] == [
        ("c1", 2000, 1000),
        ("c0", 1000, 1000),
    ]
    assert [(u.cell, u.devices, u.jobs, u.needed_macc) for u in figures.unplaced] == [
        ("c1", 3, 2, 6000)
    ]
    assert (figures.unplaced_jobs, figures.unplaced_macc, figures.gangs_waiting) == (2, 6000, 2)
    assert figures.gang_wait_ms == figures.unplaced[0].longest_wait_ms == 180_000
    assert (figures.bought_macc, figures.unspent_macc) == (21_000, 8_000)
    assert (figures.usable_macc, figures.held_macc, figures.pending_jobs) == (16_000, 13_000, 3)


def test_what_happened_in_a_cycle_is_told_once(kit: Any) -> None:
    bench = kit.bench(cycle_every=3)
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)))
    assert bench.figures["a"].started_jobs == 0
    bench.step(bench.job("j1", 1))
    bench.step(bench.job("j2", 1))
    assert bench.figures["a"].cycle == 0
    bench.step(kit.quota("t1", a=(1, 0, 5)))
    figures = bench.figures["a"]
    assert (figures.cycle, figures.started_jobs, figures.vacated_jobs) == (1, 2, 1)
    assert figures.started_wait_ms == 60_000 + 120_000
    for _ in range(3):
        bench.step(kit.quota("t1", a=(2, 0, 5)))
    figures = bench.figures["a"]
    assert (figures.started_jobs, figures.vacated_jobs, figures.kept_jobs) == (0, 0, 1)


@pytest.mark.parametrize("cycle_every", [1, 3])
def test_a_crash_before_every_step_loses_no_count(kit: Any, cycle_every: int) -> None:
    figures = []
    for crash in (False, True):
        bench = kit.bench(crash=crash, cycle_every=cycle_every)
        bench.step(kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)))
        for number in range(7):
            bench.step(bench.job(f"j{number}", 1), kit.quota("t1", a=(number % 3, 0, 5)))
        figures.append(bench.log.entries)
    assert figures[0] == figures[1]


def test_what_runs_for_nothing_is_told(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(1, 2, 5)), bench.job("j1", 1))
    bench.step(bench.job("j2", 2))
    figures = bench.figures["a"]
    assert (figures.opportunistic_macc, figures.unspent_macc, figures.held_macc) == (2000, 0, 3000)


def test_a_record_stays_small_whatever_waits(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.rounding("a", Rounding.RELEASE),
        *(kit.node(f"n{number}", 1, cell=f"cell-{number:02d}") for number in range(40)),
        *(kit.node(f"m{number}", 64, cell="large", domain="x") for number in range(2)),
        kit.quota("t0", a=(127, 0, 5)),
        bench.job("most", 127, team="t0"),
    )
    for number in range(60):
        team = f"team-{number:02d}"
        bench.step(
            kit.quota(team, a=(2 + number % 30, 0, 5)),
            bench.job(f"job-{number:02d}", 2 + number % 30, team=team),
        )
    for _ in range(11):
        bench.step()
    figures = bench.figures["a"]
    assert len(figures.cells) == CELLS_MAX
    assert len(figures.unplaced) == UNPLACED_MAX
    assert 0 < len(figures.stuck) <= STUCK_MAX
    assert figures.unplaced_jobs == 60
    assert len(figures.payload()) < 8 * KIBIBYTE
