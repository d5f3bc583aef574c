"""`walras rate` as a user runs it, and what holds of every bill."""

import json
import random
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras.rate.bill import Bill, Window
from walras.rate.reading import read_prices, read_usage
from walras_billing.rating import charge_id

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
MICRO = 36 * 10**14
PROPERTY = settings(deadline=None, max_examples=60)
Document = dict[str, Any]
LINE_FIELDS = (
    *("charge_id", "lease", "team", "pool", "market", "quantity_macc", "start_ms", "end_ms"),
    *("price_micro", "state", "amount_numerator"),
)


def use(start_ms: int | None, end_ms: int | None, seq: int = 0, **more: Any) -> Document:
    plain = {
        "lease": "l",
        "team": "t",
        "pool": "p",
        "market": "m",
        "quantity_macc": 1000,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "source": "l/n/1",
        "seq": seq,
    }
    return plain | more


def cost(at_ms: int, micro: int | None, pool: str = "p") -> Document:
    return {"market": "m", "pool": pool, "effective_ms": at_ms, "price_micro": micro}


def text(rows: list[Document]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def bill(
    usage: list[Document],
    prices: list[Document],
    *,
    window: Window = Window(),  # noqa: B008 # frozen
    max_age_ms: int | None = None,
) -> list[Document]:
    """Return the lines of a bill, the totals last."""
    found = Bill(read_prices("prices", text(prices)), window)
    lines = read_usage("usage", text(usage), max_age_ms, found.quarantine)
    return [*found.carried_in(lines), *found.charges(lines), found.totals()]


def numerator(lines: list[Document]) -> int:
    return sum(line["amount_numerator"] for line in lines if "charge_id" in line)


def walras(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walras", *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


@pytest.fixture
def prices(tmp_path: Path) -> str:
    file = tmp_path / "prices.jsonl"
    file.write_bytes(text([cost(0, 3_600_000), cost(30_000, 7_200_000), cost(90_000, None)]))
    return str(file)


def test_usage_and_prices_become_lines_and_totals(tmp_path: Path, prices: str) -> None:
    usage = tmp_path / "usage.jsonl"
    rows = [use(0, 60_000), use(60_000, 100_000, 1), use(5, 5, 2)]
    usage.write_bytes(text(rows) + b"\n")
    done = walras("rate", "--usage", str(usage), "--prices", prices)
    assert (done.returncode, done.stderr) == (0, b"")

    *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert {tuple(line) for line in lines} == {LINE_FIELDS}
    assert [(x["start_ms"], x["end_ms"], x["price_micro"], x["state"]) for x in lines] == [
        (0, 30_000, 3_600_000, "rated"),
        (30_000, 60_000, 7_200_000, "rated"),
        (60_000, 90_000, 7_200_000, "rated"),
        (90_000, 100_000, None, "price_pending"),
    ]
    assert [x["amount_numerator"] // MICRO for x in lines] == [30_000, 60_000, 60_000, 0]
    assert lines[1]["charge_id"] == charge_id("l/n/1", 0, 30_000)
    assert last == {
        "totals": {"t": {"amount_micro": 150_000, "pending_macc_ms": 10_000_000}},
        "quarantined": [{"line": 3, "code": "empty_interval"}],
    }


def test_a_window_is_half_open_and_begins_with_the_price_that_is_carried_in(prices: str) -> None:
    usage = text([use(0, 60_000), use(60_000, 100_000, 1)])
    words = ("rate", "--usage", "-", "--prices", prices)
    done = walras(*words, "--from", "40000", "--to", "70000", stdin=usage)
    first, *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == {**cost(30_000, 7_200_000), "carried_in": True}
    assert [(line["start_ms"], line["end_ms"]) for line in lines] == [
        (40_000, 60_000),
        (60_000, 70_000),
    ]
    assert last["totals"]["t"]["amount_micro"] == 60_000


def test_a_price_that_is_carried_in_is_null_where_it_is_unknown_and_zero_only_where_it_is() -> None:
    rows = [cost(100, 5), cost(200, None), cost(300, 0)]
    wanted = {50: (None, None), 150: (100, 5), 250: (200, None), 350: (300, 0)}
    for at_ms, (since_ms, micro) in wanted.items():
        (first, _) = bill([], rows, window=Window(at_ms))
        assert (first["effective_ms"], first["price_micro"]) == (since_ms, micro)
    (old, *_) = bill([use(400, 410)], rows, window=Window(400), max_age_ms=100)
    assert (old["effective_ms"], old["price_micro"]) == (300, None)


def test_o4_use_outside_the_window_costs_nothing_and_reversed_use_is_quarantined() -> None:
    day_ms = 1_767_225_600_000
    from_ms = day_ms + (5 * 3600 + 44 * 60 + 57) * 1000
    sample_ms = day_ms + (5 * 3600 + 42 * 60 + 30) * 1000
    lines = bill(
        [
            use(sample_ms - 60_000, sample_ms),
            use(1_800_181_871_000, 1_534_079_928_000, 1),
        ],
        [cost(0, 10)],
        window=Window(from_ms, from_ms + 76_000),
    )
    assert len(lines) == 2
    assert lines[-1] == {
        "totals": {"t": {"amount_micro": 0, "pending_macc_ms": 0}},
        "quarantined": [{"line": 2, "code": "reversed_interval"}],
    }


def test_o5_a_price_that_is_too_old_leaves_use_pending_until_the_real_one_is_there() -> None:
    ten = 36_000_000
    rows = [cost(ten - 20 * MINUTE_MS, 5)]
    used = [use(ten, ten + MINUTE_MS)]
    (line, last) = bill(used, rows, max_age_ms=15 * MINUTE_MS)
    assert (line["state"], line["price_micro"]) == ("price_pending", None)
    assert last["totals"]["t"]["pending_macc_ms"] == 1000 * MINUTE_MS
    (line, last) = bill(used, [*rows, cost(ten, 6)], max_age_ms=15 * MINUTE_MS)
    assert (line["state"], line["price_micro"]) == ("rated", 6)


def test_o6_a_stop_without_a_start_is_quarantined_and_no_cost_is_below_zero() -> None:
    rows = [{k: v for k, v in use(0, 9, n).items() if k != "start_ms"} for n in range(3)]
    lines = bill([*rows, use(9, 19, 3)], [cost(0, 10)])
    assert numerator(lines) == 10 * 1000 * 10**6 * 10
    codes = {each["code"] for each in lines[-1]["quarantined"]}
    assert (codes, len(lines[-1]["quarantined"])) == ({"stop_without_start"}, 3)


BAD: list[tuple[Document, str]] = [
    ({"start_ms": -5}, "negative_time"),
    ({"start_ms": 80, "end_ms": 70}, "reversed_interval"),
    ({"end_ms": 86_400_061}, "longer_than_a_day"),
    ({"end_ms": None}, "start_without_stop"),
    ({"quantity_macc": 0}, "quantity_not_positive"),
    ({"class": "vip"}, "unknown_class"),
    ({"limit_micro": -1}, "out_of_range"),
    ({"tariff_ppm": 10**12}, "out_of_range"),
    ({"seq": -1}, "out_of_range"),
    ({"seq": 0}, "other_body"),
]


@pytest.mark.parametrize(("changes", "code"), BAD, ids=[f"{c}-{n}" for n, (_, c) in enumerate(BAD)])
def test_bad_use_is_quarantined_by_its_line_and_changes_no_total(
    changes: Document, code: str
) -> None:
    good = [use(0, 60)]
    bad = use(60, 90, 1) | changes
    lines = bill([*good, bad, bad], [cost(0, 10)])
    assert lines[-1]["quarantined"] == [{"line": 2, "code": code}]
    assert lines[:-1] == bill(good, [cost(0, 10)])[:-1]


def test_what_overlaps_is_charged_to_the_lower_number() -> None:
    lines = bill([use(0, 100, 4), use(50, 150, 7), use(60, 90, 9)], [cost(0, 10)])
    assert [(x["start_ms"], x["end_ms"]) for x in lines[:-1]] == [(0, 100), (100, 150)]
    assert [q["code"] for q in lines[-1]["quarantined"]] == ["overlap", "overlap"]


@st.composite
def days(draw: st.DrawFn) -> tuple[list[Document], list[Document]]:
    """Usage of a few sources, overlapping at times, and prices with holes."""
    classes = st.sampled_from(["market", "market", "opportunistic", "overhang"])
    usage = [
        use(
            start := draw(st.integers(0, 900)),
            start + draw(st.integers(1, 200)),
            draw(st.integers(0, 9)),
            source=(source := draw(st.sampled_from("ab"))),
            team=f"t{source}",
            quantity_macc=draw(st.integers(1, 10**6)),
            limit_micro=draw(st.none() | st.integers(0, 200)),
            billable=draw(st.sampled_from([True, True, False])),
            **{"class": draw(classes)},
        )
        for _ in range(draw(st.integers(0, 8)))
    ]
    distinct = {(row["source"], row["seq"]): row for row in usage}
    times = draw(st.lists(st.integers(0, 1100), max_size=6, unique=True))
    return [*distinct.values()], [cost(t, draw(st.none() | st.integers(0, 300))) for t in times]


@PROPERTY
@given(day=days(), order=st.randoms(use_true_random=False))
def test_order_and_exact_repetitions_of_the_input_change_nothing(
    day: tuple[list[Document], list[Document]], order: random.Random
) -> None:
    usage, prices = day
    one, other = [*usage, *usage], [*prices, *prices]
    order.shuffle(one)
    order.shuffle(other)
    plain, shuffled = bill(usage, prices), bill(one, other)
    assert shuffled[:-1] == plain[:-1]
    assert shuffled[-1]["totals"] == plain[-1]["totals"]
    assert len(shuffled[-1]["quarantined"]) == len(plain[-1]["quarantined"])


@PROPERTY
@given(day=days(), cuts=st.lists(st.integers(1, 1100), max_size=4))
def test_windows_side_by_side_add_up_to_the_whole(
    day: tuple[list[Document], list[Document]], cuts: list[int]
) -> None:
    usage, prices = day
    edges = [None, *sorted(cuts), None]
    parts = [bill(usage, prices, window=Window(a, b)) for a, b in pairwise(edges)]
    whole = bill(usage, prices)
    assert sum(numerator(part) for part in parts) == numerator(whole)
    for team, total in whole[-1]["totals"].items():
        pending = sum(part[-1]["totals"][team]["pending_macc_ms"] for part in parts)
        assert pending == total["pending_macc_ms"]


@PROPERTY
@given(
    prices=st.lists(
        st.tuples(st.integers(0, 1000), st.none() | st.integers(0, 10**12)),
        max_size=6,
        unique_by=lambda p: p[0],
    ),
    cuts=st.lists(st.integers(1, 999), max_size=6, unique=True),
    max_age_ms=st.none() | st.integers(1, 500),
)
def test_splitting_use_anywhere_leaves_the_sum_unchanged_to_the_last_unit(
    prices: list[tuple[int, int | None]], cuts: list[int], max_age_ms: int | None
) -> None:
    costs = [cost(*each) for each in prices]
    edges = [0, *sorted(cuts), 1000]
    split = [use(a, b, seq) for seq, (a, b) in enumerate(pairwise(edges))]
    whole = bill([use(0, 1000)], costs, max_age_ms=max_age_ms)
    parts = bill(split, costs, max_age_ms=max_age_ms)
    assert numerator(parts) == numerator(whole)
    assert parts[-1] == whole[-1]
    assert whole[-1]["totals"]["t"]["amount_micro"] == round(Fraction(numerator(whole), MICRO))


@pytest.mark.parametrize(
    ("row", "where", "reason"),
    [
        (b"{", b"$", b"character"),
        (b"[]", b"$", b"object"),
        (b'{"lease":"l","lease":"l"}', b"$", b"twice"),
        (text([use(0, 9) | {"quantity_macc": 1.0}]), b"$.quantity_macc", b"integer"),
        (text([use(0, 9) | {"quantity_macc": True}]), b"$.quantity_macc", b"integer"),
        (text([use(0, 9) | {"colour": 1}]), b"$.colour", b"unknown field"),
        (text([use(0, 9) | {"billable": 1}]), b"$.billable", b"boolean"),
        (text([use(0, 9) | {"class": None}]), b"$.class", b"string"),
        (text([{k: v for k, v in use(0, 9).items() if k != "team"}]), b"$.team", b"required"),
        (b"\xff", b"$", b"UTF-8"),
    ],
)
def test_a_line_that_is_not_of_the_form_is_one_line_on_stderr_and_nothing_on_stdout(
    prices: str, row: bytes, where: bytes, reason: bytes
) -> None:
    stdin = text([use(0, 9)]) + b"\n" + row
    done = walras("rate", "--usage", "-", "--prices", prices, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"standard input: line 3: " + where + b": ")
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_bad_price_files_and_windows_are_refused(tmp_path: Path, prices: str) -> None:
    words = ("rate", "--usage", "-", "--prices")
    for rows, reason in (
        ([cost(0, 5), cost(0, 6)], b"line 2: $.price_micro: another"),
        ([cost(0, -5)], b"line 1: $.price_micro: "),
        ([cost(-1, 5)], b"line 1: $.effective_ms: "),
    ):
        file = tmp_path / "bad.jsonl"
        file.write_bytes(text(rows))
        done = walras(*words, str(file))
        assert (done.returncode, done.stdout) == (2, b"")
        assert reason in done.stderr
    for more, reason in (
        (("--from", "9", "--to", "8"), b"is after"),
        (("--max-price-age", "0"), b"not 1 or more"),
        (("--from", "soon"), b"invalid int"),
    ):
        done = walras(*words, prices, *more)
        assert (done.returncode, done.stdout) == (2, b"")
        assert reason in done.stderr
    assert walras(*words, "-").returncode == 2
    assert walras(*words, str(tmp_path / "nowhere")).returncode == 2


def test_missing_numbers_are_warned_of_unless_json_alone_is_asked_for(prices: str) -> None:
    words = ("rate", "--usage", "-", "--prices", prices)
    stdin = text([use(0, 9, 2), use(9, 19, 4)])
    plain, quiet = walras(*words, stdin=stdin), walras(*words, "--json", stdin=stdin)
    assert plain.stderr == b"warning: 3 sequence numbers of usage are missing [gap]\n"
    assert (quiet.stderr, quiet.stdout) == (b"", plain.stdout)
