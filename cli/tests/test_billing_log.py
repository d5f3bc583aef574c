"""Events from files and logs: their types, their order, their steps; times as people write them."""

import io
import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log import BillingLogError, Files
from walras.billing_log.amounts import (
    NUMERATOR_PER_MICRO,
    credits_text,
    decimal_text,
    half_even,
    scaled_text,
    share_text,
)
from walras.billing_log.event_files import model_by_fields
from walras.billing_log.sources import StepTime, in_steps
from walras.billing_log.testing import charge, correction, credit, pending, prices
from walras.billing_log.window import Window, market_time_ms, moment
from walras_contracts.charges import ChargeCredited, ChargePending, ChargeRated
from walras_contracts.event import Event
from walras_contracts.examples import arbitrary_event
from walras_contracts.market import PricePublished
from walras_contracts.quantities import MARKET_TIME_MS_MAX
from walras_contracts.registry import EVENTS
from walras_runtime.records import Barrier

FIRST = charge(0, 10, 5)
CHARGES = (FIRST, correction(FIRST, 2, 4, price_micro=7, previous_price_micro=5), credit(FIRST, -9))


def written(path: Path, *events: Event) -> Files:
    path.write_bytes(b"".join(event.payload() + b"\n" for event in events))
    return Files((str(path),))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("model", EVENTS, ids=lambda model: model.TYPE)
def test_the_fields_of_any_payload_tell_its_type(model: type[Event], seed: int) -> None:
    document = json.loads(arbitrary_event(model, random.Random(seed)).payload())
    assert model_by_fields(document) is model


def test_a_file_of_payloads_gives_the_events_that_are_wanted_in_its_order(tmp_path: Path) -> None:
    source = written(tmp_path / "log.jsonl", *CHARGES, pending(3, 4), prices(0, 5, p=5))
    assert [*source.read(ChargeRated, ChargeCredited)] == [*CHARGES]
    assert [*source.read(ChargePending)] == [pending(3, 4)]
    assert [*source.read(PricePublished)] == [prices(0, 5, p=5)]


def test_a_line_may_be_a_cloud_event_that_names_its_type(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"type": each.TYPE, "data": json.loads(each.payload())} for each in CHARGES]
    lines.append({"type": "com.example.else.v1", "data": {"a": 1}})
    path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    assert [*Files((str(path),)).read(ChargeRated, ChargeCredited)] == [*CHARGES]


def test_fields_that_a_newer_writer_adds_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(json.loads(FIRST.payload()) | {"newer": 1}), "utf-8")
    assert [*Files((str(path),)).read(ChargeRated)] == [FIRST]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "line 2: $: must be an object"),
        ("{", "line 2: $"),
        ('{"a": 1, "a": 2}', "line 2: $"),
        ('{"what": 1}', "line 2: $: has the fields of no event"),
        ('{"barrier": 1.0, "market_time_ms": 5}', "a barrier has a whole number"),
        (FIRST.payload().decode().replace('"seq":0', '"seq":-1'), "$.seq"),
        (
            json.dumps({"type": "walras.charge.rated.v2", "data": {}}),
            '"walras.charge.rated.v2" is not known to this build',
        ),
    ],
)
def test_a_line_that_is_no_event_is_refused_with_its_place(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{FIRST.payload().decode()}\n{line}\n", "utf-8")
    with pytest.raises(BillingLogError) as refused:
        list(Files((str(path),)).read(ChargeRated))
    assert str(path) in str(refused.value)
    assert reason in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(BillingLogError, match=r"nowhere\.jsonl: No such file"):
        list(Files(("nowhere.jsonl",)).read(ChargeRated))


def test_standard_input_is_read_once_and_gives_events_as_often_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Input:
        buffer = io.BytesIO(FIRST.payload())

    monkeypatch.setattr(sys, "stdin", Input)
    source = Files(("-",))
    assert [*source.read(PricePublished)] == []
    assert [*source.read(ChargeRated)] == [FIRST]


def test_barriers_give_events_their_steps_in_each_partition_of_a_file() -> None:
    a, b, c, d = (charge(at, at + 1, 1) for at in range(4))

    def lines() -> Iterator[ChargeRated | Barrier | None]:
        yield from (a, Barrier(0, 100), Barrier(1, 200), b, Barrier(2, 300))
        yield from (c, Barrier(0, 100), d, None)

    assert [*in_steps(lines())] == [
        (a, StepTime(100, -1)),
        (b, StepTime(300, 200)),
        (c, StepTime(100, -1)),
        (d, None),
    ]


@given(st.integers(0, MARKET_TIME_MS_MAX))
def test_a_time_is_read_as_it_is_written(time_ms: int) -> None:
    assert market_time_ms(moment(time_ms)) == market_time_ms(str(time_ms)) == time_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-01-01", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-01-01T00:00", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-01-01T01:00+01:00", datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, expected: datetime) -> None:
    assert market_time_ms(text) == int(expected.timestamp()) * 1000


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "1969-01-01", "2200-01-01", "12 h"])
def test_what_is_no_market_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|1970 to 2100"):
        market_time_ms(text)


def test_a_window_is_half_open_and_clips() -> None:
    window = Window(10, 20)
    assert window.clip(5, 30) == (10, 20)
    assert window.touches(19, 25)
    assert not window.touches(20, 25)
    assert not window.touches(5, 10)
    assert Window().clip(5, 30) == (5, 30)


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20), st.integers(0, 20))
def test_decimal_text_is_the_nearest_decimal(numerator: int, denominator: int, places: int) -> None:
    text = decimal_text(numerator, denominator, places)
    digits = int(text.replace(".", ""))
    assert 2 * abs(digits * denominator - numerator * 10**places) <= denominator
    assert len(text.partition(".")[2]) == places


def test_halves_go_to_the_even_neighbour() -> None:
    assert [half_even(n, 2) for n in (1, 3, 5, -1, -3)] == [0, 2, 2, 0, -2]
    assert credits_text(-1_234_567_890) == "-1,234.567890"
    assert scaled_text(-5, 1) == "-0.5"
    assert decimal_text(7 * NUMERATOR_PER_MICRO, NUMERATOR_PER_MICRO, 0) == "7"


def test_what_is_unknown_is_never_shown_as_zero() -> None:
    assert credits_text(None) == "unknown"
    assert share_text(0, 0) == "unknown"
    assert share_text(0, 5) == "0.0 %"
