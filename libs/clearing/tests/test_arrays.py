"""Markets in columns clear as named ones do, whatever the order, the process or the threads."""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest

from walras_clearing import MarketArrays, clear, clear_arrays, verify_arrays
from walras_clearing.pack import pack, unpack
from walras_clearing.testing import draw_market
from walras_clearing.testing_columns import differences, draw_columns, fingerprint, named, shuffled

RESULT_PROGRAM = """
import sys
from walras_clearing import clear_arrays
from walras_clearing.testing_columns import draw_columns, fingerprint
print(fingerprint(clear_arrays(draw_columns(int(sys.argv[1])))))
"""


def assert_same_when_shuffled(arrays: MarketArrays, seed: int) -> None:
    other, number = shuffled(arrays, seed)
    result, expected = clear_arrays(other), clear_arrays(arrays)
    by_old_number = replace(
        result,
        allocated_macc=result.allocated_macc[number],
        opportunistic_macc=result.opportunistic_macc[number],
    )
    assert differences(by_old_number, expected) == [], f"seed {seed}"
    assert verify_arrays(other, result) == (), f"seed {seed}"


@pytest.mark.parametrize("first_seed", range(0, 2_000, 500))
def test_neither_the_order_of_jobs_nor_the_numbers_of_teams_matter(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 500):
        assert_same_when_shuffled(pack(draw_market(random.Random(seed).randint)).arrays, seed)


@pytest.mark.parametrize("seed", range(6))
def test_neither_matters_in_large_markets_that_start_from_a_sample(seed: int) -> None:
    assert_same_when_shuffled(draw_columns(seed, bid_bits=20 + seed), seed)


@pytest.mark.parametrize("seed", range(40))
def test_names_and_numbers_give_the_same_figures(seed: int) -> None:
    arrays = shuffled(draw_columns(seed, jobs=300, teams=9, pools=4), seed)[0]
    market = named(arrays)
    packed = pack(market)
    result = clear_arrays(arrays)
    assert arrays.team_order is not None
    # Teams are named by their place in id order.
    in_id_order = replace(
        result,
        allocated_macc=result.allocated_macc[arrays.team_order],
        opportunistic_macc=result.opportunistic_macc[arrays.team_order],
    )
    assert unpack(packed, in_id_order) == clear(market), f"seed {seed}"


def test_clearing_does_not_write_to_the_columns_it_is_given() -> None:
    arrays = draw_columns(3)
    for field in fields(MarketArrays):
        value = getattr(arrays, field.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    result = clear_arrays(arrays)
    assert verify_arrays(arrays, result) == ()
    assert differences(result, clear_arrays(arrays)) == []


def test_columns_of_other_kinds_of_integers_and_strides_are_the_same_columns() -> None:
    arrays = draw_columns(4, limits="equal", jobs=500)
    other = replace(
        arrays,
        size_macc=arrays.size_macc.astype(np.uint32),
        limit_micro=arrays.limit_micro.astype(">i8"),
        team_of_job=np.repeat(arrays.team_of_job, 2)[::2].astype(np.uint64),
        pool_of_team=arrays.pool_of_team.astype(np.int8),
        own_supply_macc=arrays.own_supply_macc.tolist(),
        bid_micro_per_hour=np.asfortranarray(arrays.bid_micro_per_hour[::-1])[::-1],
    )
    assert differences(clear_arrays(other), clear_arrays(arrays)) == []
    assert verify_arrays(other, clear_arrays(arrays)) == ()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_that_clear_at_once_do_not_disturb_each_other(threads: int) -> None:
    markets = [draw_columns(seed, jobs=8_000) for seed in range(6)]
    expected = [fingerprint(clear_arrays(market)) for market in markets]
    with ThreadPoolExecutor(threads) as pool:
        futures = [
            pool.submit(lambda market: fingerprint(clear_arrays(market)), market)
            for _ in range(4)
            for market in markets
        ]
        assert [future.result() for future in futures] == expected * 4


def test_neither_hash_seed_nor_thread_count_of_the_process_matters() -> None:
    outputs = set()
    for hash_seed, threads in (("0", "1"), ("1", "2"), ("77", "1")):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
        }
        done = subprocess.run(
            [sys.executable, "-c", RESULT_PROGRAM, "5"],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
        )
        outputs.add(done.stdout.strip())
    assert outputs == {fingerprint(clear_arrays(draw_columns(5)))}


def test_results_that_differ_by_one_macc_have_another_fingerprint() -> None:
    """Canary of this file: both comparisons see the smallest difference."""
    arrays = draw_columns(5)
    result, other = clear_arrays(arrays), clear_arrays(arrays)
    other.opportunistic_macc[-1] += 1
    assert fingerprint(other) != fingerprint(result)
    assert len(differences(other, result)) == 1
