"""A record has one verdict, whichever way it is read."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from walras_billing.decoding import decode_usage
from walras_billing.sources import Source
from walras_billing.usage_faults import DAY_MS, WEIGHT_MAX, Fault, time_fault
from walras_billing.usage_line import line_of
from walras_billing.usage_reading import Followers
from walras_contracts.quantities import MACC_MAX, MARKET_TIME_MS_MAX, NUMBER_MAX, PPM
from walras_contracts.work import UsageMetered, WorkClass
from walras_runtime.records import Record

GRACE_MS = 60_000
NOW_MS = 2 * DAY_MS


def usage(**more: Any) -> UsageMetered:
    plain: dict[str, Any] = {
        "lease": "l",
        "node": "n",
        "attempt": 1,
        "seq": 0,
        "team": "t",
        "pool": "p",
        "job": "j",
        "market": "m",
        "quantity_macc": 1,
        "start_ms": 0,
        "end_ms": 1,
        "work_class": WorkClass.MARKET,
        "billable": True,
        "limit_micro": None,
        "tariff_ppm": PPM,
    }
    return UsageMetered(**(plain | more))


def near(value: int) -> st.SearchStrategy[int]:
    return st.integers(value - 2, value + 2)


@st.composite
def following(draw: st.DrawFn) -> tuple[UsageMetered, dict[str, int], tuple[int, int]]:
    """Return a known record, what its successor says otherwise, and between what use is taken.

    Most of them are at one of the borders of what is right.
    """
    length_ms = draw(st.integers(1, DAY_MS) | near(DAY_MS) | st.integers(-3, 3))
    tariff_ppm = draw(st.integers(0, 1000 * PPM) | st.just(1))
    heaviest = WEIGHT_MAX // max(1, tariff_ppm * max(1, length_ms))
    macc = draw(st.integers(1, MACC_MAX) | near(heaviest))
    known = usage(
        quantity_macc=min(max(1, macc), MACC_MAX),
        tariff_ppm=tariff_ppm,
        start_ms=NOW_MS - 2,
        end_ms=NOW_MS - 1,
    )
    start_ms = draw(near(NOW_MS) | near(MARKET_TIME_MS_MAX - length_ms))
    said = {
        "seq": draw(near(0) | near(NUMBER_MAX) | st.integers(0, 9)),
        "start_ms": start_ms,
        "end_ms": start_ms + length_ms,
    }
    return known, said, (draw(near(start_ms)), draw(near(start_ms + length_ms)))


def heavy(weight: int) -> tuple[UsageMetered, dict[str, int], tuple[int, int]]:
    """Return a record of a ms and a tariff of a million, which weighs so many millions."""
    known = usage(quantity_macc=weight, tariff_ppm=PPM, start_ms=NOW_MS - 1, end_ms=NOW_MS)
    said = {"seq": 1, "start_ms": NOW_MS, "end_ms": NOW_MS + 1}
    return known, said, (NOW_MS, NOW_MS + 1)


@example(heavy(WEIGHT_MAX // PPM))
@example(heavy(WEIGHT_MAX // PPM + 1))
@given(given_=following())
def test_what_is_read_directly_is_what_has_no_fault_otherwise(
    given_: tuple[UsageMetered, dict[str, int], tuple[int, int]],
) -> None:
    known, said, (earliest_ms, latest_ms) = given_
    payload = json.dumps(json.loads(known.payload()) | said).encode()
    record = Record("usage", 0, 0, known.record_key(), UsageMetered.TYPE, payload)
    line = line_of(known, GRACE_MS)
    sources = {line.terms.source: Source([line], line.end_ms)}
    direct = Followers(sources, (earliest_ms, latest_ms), GRACE_MS, None).read(record)

    read = decode_usage(record)
    fault: Fault | None
    if isinstance(read, Fault):
        fault = read
    else:
        span_ms = (read.start_ms, read.end_ms)
        fault = time_fault(span_ms, latest_ms, earliest_ms, 0)
    overlaps = said["start_ms"] < line.end_ms
    assert (direct is not None) == (fault is None and not overlaps), fault
