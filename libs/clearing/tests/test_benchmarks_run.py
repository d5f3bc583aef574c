"""The bench works: it judges, it refuses wrong answers, and its rivals agree with the library."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from libs.clearing.benchmarks.books import Changes, differences, expect_cold_result
from libs.clearing.benchmarks.conic import solve
from libs.clearing.benchmarks.figures import BenchError, Figure, at_least, at_most
from libs.clearing.benchmarks.instances import Scale, draw_arrays, scale_of
from libs.clearing.benchmarks.instructions import (
    Comparison,
    NotCounted,
    beyond,
    count,
    faults_of,
    read_record,
)
from libs.clearing.benchmarks.machine import ROOT
from libs.clearing.benchmarks.nested_bisection import NestedBisection
from libs.clearing.benchmarks.rival_rows import expect_same_prices
from libs.clearing.benchmarks.rows import ROWS
from libs.clearing.benchmarks.timing import by_turns, ratio, timing
from walras_clearing import Book, clear, clear_arrays
from walras_clearing.arrays import ABSENT, NO_LIMIT, MarketArrays
from walras_clearing.model import Market
from walras_clearing.testing import draw_market
from walras_launcher.pytest_plugin import missing

RIVALS = pytest.mark.parametrize("narrowed", [False, True], ids=["as published", "narrowed"])


def columns_of(market: Market) -> MarketArrays:
    """Lay a small market out in columns, pools and teams in id order."""
    pools = sorted(market.pools, key=lambda pool: pool.pool)
    teams = sorted(market.teams, key=lambda team: team.team)
    place = {pool.pool: k for k, pool in enumerate(pools)}
    jobs = [(i, job) for i, team in enumerate(teams) for job in team.jobs]
    limits = [NO_LIMIT if job.limit_micro is None else job.limit_micro for _, job in jobs]
    return MarketArrays(
        shared_supply_macc=market.shared_supply_macc,
        own_supply_macc=np.array([p.own_supply_macc for p in pools], np.int64),
        pool_weight=np.array([p.weight for p in pools], np.int64),
        pool_of_team=np.array([place[t.pool] for t in teams], np.int32),
        bid_micro_per_hour=np.array([t.bid_micro_per_hour for t in teams], np.int64),
        team_of_job=np.array([i for i, _ in jobs], np.int32),
        size_macc=np.array([job.size_macc for _, job in jobs], np.int64),
        limit_micro=np.array(limits, np.int64),
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply,
        margin=market.margin,
    )


@RIVALS
@pytest.mark.parametrize("first_seed", range(0, 1_000, 250))
def test_the_rival_finds_the_prices_of_the_library_on_small_markets(
    first_seed: int, narrowed: bool
) -> None:
    for seed in range(first_seed, first_seed + 250):
        market = draw_market(Random(seed).randint)
        result = clear(market)
        rival = NestedBisection(columns_of(market))
        price, prices = rival.solve(narrowed=narrowed)
        rival.close()
        due = [result.pools[pool].price_micro for pool in sorted(result.pools)]
        assert price == result.reference_price_micro, f"seed {seed}: {market}"
        assert [None if p == ABSENT else p for p in prices.tolist()] == due, f"seed {seed}"


@RIVALS
@pytest.mark.parametrize("seed", range(4))
def test_the_rival_finds_the_prices_of_the_library_on_fleets(seed: int, narrowed: bool) -> None:
    market = draw_arrays(scale_of(20_000), seed)
    for lends in ("keep", "lend"):
        market = replace(market, idle_own_supply=lends)
        rival = NestedBisection(market)
        expect_same_prices(clear_arrays(market), *rival.solve(narrowed=narrowed))
        rival.close()


def test_the_rival_takes_the_change_of_a_team_and_of_all_bids() -> None:
    market = draw_arrays(scale_of(5_000), 1)
    rival, changes = NestedBisection(market), Changes(market, 2)
    size, limit = market.size_macc.copy(), market.limit_micro.copy()
    for _ in range(5):
        change = changes.of_one_team()
        team = int(change.teams[0])
        rival.change_team(team, int(change.bids[team]), change.sizes, change.limits)
        size[change.jobs], limit[change.jobs] = change.sizes, change.limits
        now = replace(market, size_macc=size, limit_micro=limit, bid_micro_per_hour=change.bids)
        expect_same_prices(clear_arrays(now), *rival.solve())
    bids = np.random.default_rng(3).permutation(market.bid_micro_per_hour)
    rival.set_bids(bids)
    now = replace(now, bid_micro_per_hour=bids)
    expect_same_prices(clear_arrays(now), *rival.solve())


def test_a_rival_that_is_wrong_by_one_tick_gives_no_figure() -> None:
    market = draw_arrays(scale_of(2_000), 1)
    result = clear_arrays(market)
    price = result.reference_price_micro
    assert price is not None
    with pytest.raises(BenchError):
        expect_same_prices(result, price + 1, result.price_micro)
    with pytest.raises(BenchError):
        expect_same_prices(result, price, result.price_micro + 1)


def test_a_warm_result_that_is_not_the_cold_one_gives_no_figure() -> None:
    book = Book.of(draw_arrays(scale_of(2_000), 1))
    result = book.clear()
    expect_cold_result(book, result)
    assert list(differences(result, result)) == []
    wrong = replace(result, opportunistic_macc=result.opportunistic_macc + 1)
    with pytest.raises(BenchError, match="opportunistic_macc"):
        expect_cold_result(book, wrong)


@pytest.mark.parametrize("seed", range(5))
def test_about_half_of_the_teams_run_out_of_money_and_half_of_the_pools_own_supply(
    seed: int,
) -> None:
    market = draw_arrays(scale_of(50_000), seed)
    result = clear_arrays(market)
    price = result.price_micro[market.pool_of_team]
    affordable = 1_000 * market.bid_micro_per_hour // price
    open_at = market.limit_micro >= price[market.team_of_job]
    wanted = np.bincount(market.team_of_job, weights=np.where(open_at, market.size_macc, 0))
    assert 0.35 < float((affordable < wanted).mean()) < 0.65
    assert int((market.own_supply_macc > 0).sum()) == 25
    assert int(price.min()) > 10**6, "ticks are fine"
    supply = market.shared_supply_macc + int(market.own_supply_macc.sum())
    assert abs(supply / int(market.size_macc.sum()) - 0.4) < 0.001


def test_markets_of_the_bench_are_a_function_of_their_seed() -> None:
    one, same, other = (draw_arrays(scale_of(3_000), seed) for seed in (1, 1, 2))
    assert np.array_equal(one.limit_micro, same.limit_micro)
    assert not np.array_equal(one.limit_micro, other.limit_micro)
    assert len(draw_arrays(Scale(1_000, 10, single_level=True), 1).own_supply_macc) == 1


def test_a_bound_is_kept_or_missed_and_says_so() -> None:
    assert Figure("w", 0.35, "×", at_most(0.35)).outcome == "met"
    assert Figure("w", 0.36, "×", at_most(0.35)).outcome == "missed"
    assert Figure("w", 500.0, "×", at_least(500)).outcome == "met"
    assert Figure("w", 499.0, "×", at_least(500)).outcome == "missed"
    assert Figure("w", None, "×", at_least(500)).outcome == "not run"


def test_works_take_turns_and_the_first_turn_does_not_count() -> None:
    order: list[str] = []
    works = {name: (lambda name=name: order.append(name)) for name in ("one", "other")}
    samples = by_turns(works, 2, before=lambda: order.append("draw"))
    assert order == ["draw", "one", "other"] * 3
    assert {name: len(values) for name, values in samples.items()} == {"one": 2, "other": 2}


def test_timings_are_medians_with_their_spread() -> None:
    values = [1.0, 2.0, 9.0]
    assert (timing(values).median_ms, timing(values).least_ms, timing(values).most_ms) == (2, 1, 9)
    assert ratio([1.0, 2.0, 9.0], [4.0, 4.0, 4.0]) == 0.5


def test_a_quick_run_of_a_row_prints_one_line_of_json_and_writes_the_history(
    tmp_path: Path,
) -> None:
    history = tmp_path / "history.jsonl"
    program = [sys.executable, "-m", "libs.clearing.benchmarks", "--quick", "--json"]
    rows = ("cold-1m", "warm-team", "verify", "nested")
    done = subprocess.run(
        [*program, "--history", str(history), "--rows", *rows],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [json.loads(line) for line in history.read_text("utf-8").splitlines()] == [document]
    assert document["bench"] == "clearing"
    assert [row["row"] for row in document["rows"]] == list(rows)
    figures = [figure for row in document["rows"] for figure in row["figures"]]
    assert len(figures) == 1 + 3 + 1 + 4
    assert all(figure["value"] > 0 for figure in figures)
    shown = {figure["work"] for figure in figures if figure["outcome"] == "shown"}
    assert all("brackets carried" in work for work in shown)
    assert len(shown) == 2, "the stronger rival is shown beside the one that the bound names"
    assert {figure["outcome"] for figure in figures} <= {"met", "missed", "shown"}
    assert all(document["machine"].values())


def test_every_row_of_the_issue_has_its_name() -> None:
    assert set(ROWS) == {
        *("cold-1m", "cold-10m", "memory-cold", "memory-book", "warm-bids", "warm-team", "growth"),
        *("conic-10k", "conic-100k", "nested", "verify", "instructions"),
    }


def test_the_recorded_instruction_counts_have_their_reasons() -> None:
    assert faults_of(read_record()) == []


def test_a_count_without_a_reason_or_beyond_the_tolerance_is_a_fault() -> None:
    entry = {"instructions": 5, "reason": "first record"}
    assert faults_of({"counts": {"cold": entry, "warm": {**entry, "reason": " "}}}) == [
        "warm: the recorded count has no reason"
    ]
    assert len(faults_of({})) == 4
    assert beyond([Comparison("cold", 105, 100, "r"), Comparison("warm", 95, 100, "r")]) == []
    assert len(beyond([Comparison("cold", 106, 100, "r"), Comparison("warm", 94, 100, "r")])) == 2


@pytest.mark.slow
def test_counting_the_same_clear_twice_gives_nearly_the_same_number() -> None:
    try:
        first, second = count("warm"), count("warm")
    except NotCounted as error:
        missing("valgrind", error)
    assert abs(first - second) < 0.005 * first


@pytest.mark.parametrize("merged", [False, True], ids=["a piece a job", "merged pieces"])
@pytest.mark.parametrize("seed", range(2))
def test_the_conic_solver_agrees_with_the_library_on_the_price(seed: int, merged: bool) -> None:
    market = draw_arrays(Scale(1_000, random.Random(seed).choice((10, 100)), 1, True), seed)
    price = clear_arrays(market).reference_price_micro
    assert price
    answer = solve(market, tolerance=1e-9, merged=merged)
    assert abs(answer.price_micro / price - 1) < 1e-6
