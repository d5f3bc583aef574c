"""`walras rate` and the billing service give a usage record the same verdict."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walras.rate.reading import read_usage
from walras_billing.decoding import decode_usage
from walras_billing.usage_faults import DAY_MS, WEIGHT_MAX, Fault, UsageFault
from walras_contracts.quantities import (
    LIMIT_MICRO_MAX,
    MACC_MAX,
    MARKET_TIME_MS_MAX,
    NUMBER_MAX,
    PPM,
)
from walras_contracts.work import UsageMetered, WorkClass
from walras_runtime.records import Record

Document = dict[str, Any]


def by_rate(said: Document) -> UsageFault | None:
    """Return the verdict of the command, for a line of a file."""
    row = {"lease": "l", "team": "t", "pool": "p", "market": "m", "source": "l/n/1"} | said
    row["class"] = row.pop("work_class")
    found: dict[int, UsageFault] = {}
    lines = read_usage("usage", json.dumps(row).encode(), None, found.__setitem__)
    assert len(lines) + len(found) == 1
    return found.get(1)


def by_billing(said: Document) -> UsageFault | None:
    """Return the verdict of the service, for a record of the log."""
    plain = {"lease": "l", "node": "n", "attempt": 1, "team": "t", "pool": "p", "job": "j"}
    payload = json.dumps({**plain, "market": "m", "billable": True, **said}).encode()
    read = decode_usage(Record("usage", 0, 0, "l/n/1/0", UsageMetered.TYPE, payload))
    return read.code if isinstance(read, Fault) else None


def near(*values: int) -> st.SearchStrategy[int]:
    return st.sampled_from([value + more for value in values for more in (-1, 0, 1)])


@st.composite
def records(draw: st.DrawFn) -> Document:
    """Return a record in which up to three things are at a border of what is right, or beyond."""
    odd = draw(st.sets(st.sampled_from(sorted(PLAIN)), max_size=3))
    start_ms = draw(st.integers(0, 10**12))
    length_ms = draw(st.integers(1, DAY_MS))
    if "end_ms" in odd:
        length_ms = draw(near(0, 1, DAY_MS, MARKET_TIME_MS_MAX - start_ms))
    tariff_ppm = draw(near(0, 1000 * PPM) if "tariff_ppm" in odd else st.integers(1, 1000 * PPM))
    heaviest = WEIGHT_MAX // max(1, tariff_ppm * max(1, length_ms))
    classes = [each.value for each in WorkClass]
    said = {
        "seq": draw(near(0, NUMBER_MAX) if "seq" in odd else st.integers(0, NUMBER_MAX)),
        "start_ms": start_ms,
        "end_ms": start_ms + length_ms,
        "quantity_macc": draw(
            near(0, MACC_MAX) if "quantity_macc" in odd else near(max(2, heaviest))
        ),
        "work_class": "vip" if "work_class" in odd else draw(st.sampled_from(classes)),
        "limit_micro": draw(near(0, LIMIT_MICRO_MAX) if "limit_micro" in odd else st.none()),
        "tariff_ppm": tariff_ppm,
    }
    if "start_ms" in odd:
        said["start_ms"] = draw(st.none() | near(0))
        said["end_ms"] = draw(st.none() | st.just(length_ms))
    return said


PLAIN: Document = {
    "seq": 0,
    "start_ms": 0,
    "end_ms": 3_600_000,
    "quantity_macc": 8_784_000,
    "work_class": "market",
    "limit_micro": None,
    "tariff_ppm": PPM,
}
"""A record of the largest weight."""
HEAVIER = PLAIN | {"quantity_macc": 8_784_001}


@example(PLAIN)
@example(HEAVIER)
@example(HEAVIER | {"work_class": "vip"})
@example(HEAVIER | {"end_ms": None})
@given(records())
def test_a_record_has_the_same_verdict_in_a_file_as_on_the_log(said: Document) -> None:
    assert by_rate(said) == by_billing(said)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (PLAIN, None),
        (HEAVIER, UsageFault.OUT_OF_RANGE),
        (PLAIN | {"end_ms": 3_600_001}, UsageFault.OUT_OF_RANGE),
        (PLAIN | {"tariff_ppm": PPM + 1}, UsageFault.OUT_OF_RANGE),
        (HEAVIER | {"work_class": "vip"}, UsageFault.OUT_OF_RANGE),
        (HEAVIER | {"end_ms": 0}, UsageFault.EMPTY_INTERVAL),
    ],
)
def test_use_that_is_heavier_than_the_bound_is_out_of_range(
    said: Document, code: UsageFault | None
) -> None:
    assert (by_rate(said), by_billing(said)) == (code, code)
