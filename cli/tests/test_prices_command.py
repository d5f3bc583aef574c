"""`walras prices`: the price in force at a window's start, the changes inside; unknown is not 0."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log import BillingLogError, Window
from walras.billing_log.testing import MemorySource, gap, prices
from walras.prices.history import MarketPrices, Origin, PriceRow
from walras.prices_command import lines, read_prices
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.market import PriceGapPublished, PricePublished

UNBILLED, CARRY_LAST = PriceGapPolicy.UNBILLED, PriceGapPolicy.CARRY_LAST


def history(*events: PricePublished | PriceGapPublished) -> MarketPrices:
    found = MarketPrices()
    for event in events:
        found.take(event)
    return found


def told(rows: list[PriceRow]) -> list[tuple[int, int | None]]:
    return [(row.start_ms, row.price_micro) for row in rows]


def test_the_price_in_force_at_the_start_is_carried_in_and_changes_follow() -> None:
    found = history(prices(0, 9, p=5), prices(100, 9, p=5), prices(200, 8, p=7), prices(300, 7))
    rows = found.rows("p", Window(150, 300))
    assert rows == [
        PriceRow(150, 200, 0, 5, Origin.PRICE, carried_in=True),
        PriceRow(200, 300, 200, 7, Origin.PRICE, carried_in=False),
    ]
    assert told(found.rows(None, Window(150, 301))) == [(150, 9), (200, 8), (300, 7)]


def test_o22_a_window_without_length_has_one_row() -> None:
    found = history(prices(0, 9, p=5), prices(100, 9, p=6))
    assert told(found.rows("p", Window(100, 100))) == [(100, 6)]
    assert told(found.rows("p", Window(99, 99))) == [(99, 5)]


def test_before_the_first_price_nothing_is_carried_in() -> None:
    found = history(prices(100, 9, p=5))
    row, _ = found.rows("p", Window(0, 200))
    assert row == PriceRow(0, 100, None, None, Origin.NONE, carried_in=False)
    _, shown, _ = lines("m", "p", Window(0, 200), [row, row])
    assert shown.endswith("  unknown  nothing was told yet")
    assert "carried in" not in shown


def test_a_price_told_for_the_very_start_is_not_carried_in() -> None:
    (row,) = history(prices(0, 9, p=5)).rows("p", Window(0, 10))
    assert (row.since_ms, row.carried_in) == (0, False)


def test_unknown_and_zero_are_never_mixed() -> None:
    found = history(prices(100, None, p=None), prices(200, None, p=0), prices(300, 4, q=1))
    rows = found.rows("p", Window(0, 400))
    assert told(rows) == [(0, None), (100, None), (200, 0), (300, None)]
    assert [row.origin for row in rows[:2]] == [Origin.NONE, Origin.PRICE]
    assert rows[0].since_ms is None
    shown = lines("m", "p", Window(0, 400), rows)[1:]
    assert ["unknown" in line for line in shown] == [True, True, False, True]
    assert ["0.000000" in line for line in shown] == [False, False, True, False]


def test_a_late_record_for_the_same_time_takes_the_place_of_the_earlier_one() -> None:
    found = history(prices(0, 1, p=5), prices(100, 1, p=6), prices(0, 1, p=4))
    assert told(found.rows("p", Window(0, 200))) == [(0, 4), (100, 6)]


def test_use_in_an_unbilled_gap_is_free_and_has_no_reference_price() -> None:
    found = history(prices(0, 9, p=5), gap(10, 100, UNBILLED), prices(100, 8, p=6))
    assert told(found.rows("p", Window(0, 200))) == [(0, 5), (10, 0), (100, 6)]
    assert told(found.rows("other", Window(50, 60))) == [(50, 0)], "for every pool"
    assert told(found.rows(None, Window(0, 200))) == [(0, 9), (10, None), (100, 8)]


def test_a_carried_gap_goes_on_with_the_price_before_it() -> None:
    found = history(prices(0, 9, p=5), gap(10, 100, CARRY_LAST), prices(100, 8, p=6))
    rows = found.rows("p", Window(0, 200))
    assert told(rows) == [(0, 5), (10, 5), (100, 6)]
    assert rows[1].origin is Origin.CARRIED


def test_behind_a_gap_without_a_new_price_the_old_one_counts_again() -> None:
    found = history(prices(0, 9, p=5), gap(10, 100, UNBILLED))
    rows = found.rows("p", Window(0, 200))
    assert told(rows) == [(0, 5), (10, 0), (100, 5)]
    assert rows[-1].origin is Origin.RESUMED


RECORDS = st.lists(
    st.one_of(
        st.builds(
            prices,
            st.integers(0, 40),
            st.none() | st.integers(0, 3),
            p=st.none() | st.integers(0, 3),
        ),
        st.builds(
            lambda start, length, policy: gap(start, start + length, policy),
            st.integers(0, 40),
            st.integers(1, 20),
            st.sampled_from(PriceGapPolicy),
        ),
    ),
    max_size=12,
)


def in_force_since(found: MarketPrices, pool: str | None, at_ms: int) -> int | None:
    """Go back instant by instant while the same is in force; None: nothing was ever told."""

    def said(at_ms: int) -> tuple[int | None, Origin]:
        _, told = found.at(at_ms)
        return told.price_micro(pool), told.origin

    since_ms = at_ms
    while since_ms > 0 and said(since_ms - 1) == said(at_ms):
        since_ms -= 1
    return None if said(at_ms)[1] is Origin.NONE else since_ms


@given(RECORDS, st.integers(0, 50), st.integers(0, 30))
def test_rows_cover_the_window_and_say_what_is_in_force_at_every_instant(
    records: list[PricePublished | PriceGapPublished], from_ms: int, length_ms: int
) -> None:
    found = history(*records)
    window = Window(from_ms, from_ms + length_ms)
    for pool in ("p", None):
        rows = found.rows(pool, window)
        assert rows[0].start_ms == from_ms
        assert rows[-1].end_ms == window.to_ms
        for before, after in pairwise(rows):
            assert before.end_ms == after.start_ms
            assert (before.price_micro, before.origin) != (after.price_micro, after.origin)
        for row in rows:
            assert row.since_ms == in_force_since(found, pool, row.start_ms)
            assert row.carried_in == (row.since_ms is not None and row.since_ms < row.start_ms)
        for at_ms in range(from_ms, from_ms + length_ms):
            (row,) = (r for r in rows if r.start_ms <= at_ms < (r.end_ms or 0))
            assert row.price_micro == found.at(at_ms)[1].price_micro(pool)
        pieces = [*found.pieces(pool, *window.clip(0, 1000))]
        assert sum(end - start for start, end, _ in pieces) == length_ms
        for start, end, price in pieces:
            assert all(found.at(at)[1].price_micro(pool) == price for at in range(start, end))


def test_what_is_not_there_is_refused_with_what_is() -> None:
    source = MemorySource([prices(0, 1, p=5, q=6), prices(0, 1, market="h100", p=5)])
    with pytest.raises(BillingLogError, match="no price of market x is there: there are h100, m"):
        read_prices(source, "x", None)
    with pytest.raises(BillingLogError, match="no price of pool x in m: there are p, q"):
        read_prices(source, "m", "x")


def walras(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.jsonl"
    events = (prices(0, 9, p=5_000_000), prices(100, None, p=None))
    file.write_bytes(b"".join(event.payload() + b"\n" for event in events))
    return str(file)


def test_the_command_prints_rows_as_json_and_for_people(log: str) -> None:
    words = ("prices", "m", "--pool", "p", "--from", "50", "--to", "1970-01-01T00:00:01Z")
    done = walras(*words, "--file", log, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0] == {
        "market": "m",
        "pool": "p",
        "start_ms": 50,
        "end_ms": 100,
        "since_ms": 0,
        "price_micro": 5_000_000,
        "origin": "price",
        "carried_in": True,
    }
    assert (rows[1]["price_micro"], rows[1]["end_ms"]) == (None, 1000)
    shown = walras(*words, "--file", log).stdout
    assert "5.000000  carried in, since 1970-01-01T00:00:00Z" in shown
    assert "1970-01-01T00:00:00.100Z   unknown" in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--pool", "x"], "walras prices: no price of pool x in m: there are p"),
        (["--from", "5", "--to", "4"], "walras prices: --from is after --to"),
        (["--file", "-", "--file", "-"], "walras prices: standard input can be read only once"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(
    log: str, words: list[str], reason: str
) -> None:
    done = walras("prices", "m", "--file", log, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{reason}\n")


def test_the_command_wants_a_place_to_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)
    done = walras("prices", "m")
    assert done.returncode == 2
    assert "name a broker with --bootstrap, or files with --file" in done.stderr
