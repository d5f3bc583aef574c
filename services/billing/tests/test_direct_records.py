"""Records that are read and written without their models: what the models read and write."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.billing.tests.charge_models import charge_event
from walras_billing.charge_encoding import charge_output, whole_charge_output
from walras_billing.decoding import decode_usage
from walras_billing.rating import ChargeLine, charge_id
from walras_billing.sources import Source
from walras_billing.usage_faults import DAY_MS, WEIGHT_MAX, Fault
from walras_billing.usage_line import Cut, SaidTerms, UsageLine, line_of
from walras_billing.usage_reading import Followers, _Usage
from walras_contracts.charges import ChargeReason
from walras_contracts.quantities import (
    LIMIT_MICRO_MAX,
    MACC_MAX,
    MARKET_TIME_MS_MAX,
    NUMBER_MAX,
    PPM,
    PRICE_MICRO_MAX,
)
from walras_contracts.work import UsageMetered, WorkClass
from walras_runtime.records import Record, emit

GRACE_MS = 60_000
MINUTE_MS = 60_000
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
STARTS_MS = st.integers(0, MARKET_TIME_MS_MAX - 2 * DAY_MS)
FIGURES_MS = st.none() | st.integers(0, 2 * MINUTE_MS) | st.integers(0, DAY_MS)


@st.composite
def usages(draw: st.DrawFn) -> UsageMetered:
    start_ms = draw(STARTS_MS)
    return UsageMetered(
        lease=draw(IDS),
        node=draw(IDS),
        attempt=draw(st.integers(0, 10**9)),
        seq=draw(st.integers(0, NUMBER_MAX)),
        team=draw(IDS),
        pool=draw(IDS),
        job=draw(IDS),
        market=draw(IDS),
        quantity_macc=draw(st.integers(1, MACC_MAX)),
        start_ms=start_ms,
        end_ms=start_ms + draw(st.integers(1, DAY_MS)),
        work_class=draw(st.sampled_from(WorkClass)),
        billable=draw(st.booleans()),
        limit_micro=draw(st.none() | st.integers(0, LIMIT_MICRO_MAX)),
        tariff_ppm=draw(st.integers(0, 1000 * PPM)),
        running_ms=draw(FIGURES_MS),
        busy_ms=draw(FIGURES_MS),
    )


@st.composite
def light_usages(draw: st.DrawFn) -> UsageMetered:
    """Usage of which a day is no heavier than a record may be."""
    usage = draw(usages())
    heaviest = min(MACC_MAX, WEIGHT_MAX // (max(1, usage.tariff_ppm) * DAY_MS))
    return usage.model_copy(update={"quantity_macc": draw(st.integers(1, heaviest))})


PRICES = st.none() | st.integers(0, PRICE_MICRO_MAX)
HEX = st.from_regex(r"[0-9a-f]{32}", fullmatch=True)


@st.composite
def charges(draw: st.DrawFn) -> ChargeLine:
    start_ms = draw(STARTS_MS)
    return ChargeLine(
        charge_id=draw(HEX),
        corrects=draw(st.none() | HEX),
        reason=draw(st.sampled_from(ChargeReason)),
        start_ms=start_ms,
        end_ms=start_ms + draw(st.integers(1, DAY_MS)),
        price_micro=draw(PRICES),
        previous_price_micro=draw(PRICES),
        price_barrier=draw(st.integers(-1, NUMBER_MAX)),
        amount_numerator=draw(st.integers(-(10**59), 10**59)),
    )


@given(usage=usages(), charge=charges())
def test_a_charge_is_written_as_its_model_writes_it(
    usage: UsageMetered, charge: ChargeLine
) -> None:
    line = line_of(usage, GRACE_MS)
    assert charge_output(line, charge, 3) == emit(charge_event(line, charge), partition=3)


@given(
    usage=usages(),
    price=st.integers(0, PRICE_MICRO_MAX),
    barrier=st.integers(-1, NUMBER_MAX),
    amount=st.integers(0, 10**59),
)
def test_the_charge_of_a_whole_line_is_written_as_any_charge(
    usage: UsageMetered, price: int, barrier: int, amount: int
) -> None:
    line = line_of(usage, GRACE_MS)
    charge = ChargeLine(
        charge_id(line.terms.source, line.seq, line.start_ms),
        *(None, ChargeReason.USAGE, line.start_ms, line.end_ms),
        *(price, None, barrier, amount),
    )
    assert whole_charge_output(line, (price, barrier), amount, 1) == charge_output(line, charge, 1)


SPANS = st.tuples(STARTS_MS, STARTS_MS)


@given(
    usage=usages(),
    age_ms=st.none() | st.integers(1, NUMBER_MAX),
    net=st.none() | st.lists(SPANS, max_size=3).map(tuple),
    cuts=st.lists(st.builds(Cut, st.integers(0, NUMBER_MAX), STARTS_MS, STARTS_MS), max_size=3),
    rest=st.tuples(st.booleans(), st.none() | st.tuples(*[st.integers(0, DAY_MS)] * 3)),
)
def test_a_kept_line_is_plain_json_and_comes_back_with_the_terms_of_a_neighbour_like_it(
    usage: UsageMetered,
    age_ms: int | None,
    net: tuple[tuple[int, int], ...] | None,
    cuts: list[Cut],
    rest: tuple[bool, tuple[int, int, int] | None],
) -> None:
    line = line_of(usage, GRACE_MS, age_ms)
    line.net, line.cuts, (line.pending, line.split) = net, tuple(cuts), rest
    kept = line.dump()
    said = [
        *(usage.lease, usage.node, usage.attempt, usage.team, usage.pool, usage.job),
        *(usage.market, usage.quantity_macc, usage.work_class.value, usage.billable),
        *(usage.limit_micro, usage.tariff_ppm, usage.seq, usage.start_ms, usage.end_ms),
        *(usage.end_ms + GRACE_MS, age_ms, net),
        [[cut.barrier, cut.start_ms, cut.end_ms] for cut in cuts],
        *(rest[:1] if rest[1] is None else rest),
    ]
    assert kept == json.dumps(said, separators=(",", ":")).encode()

    alone = UsageLine.parse(kept)
    assert fields(alone) == fields(line)
    beside = UsageLine.parse(kept, line)
    assert (fields(beside), beside.terms is line.terms) == (fields(line), True)
    other = line_of(usage.model_copy(update={"job": f"{usage.job[:60]}x"}), GRACE_MS)
    assert fields(UsageLine.parse(kept, other)) == fields(line)


def fields(line: UsageLine) -> list[Any]:
    return [getattr(line, name) for name in UsageLine.__dataclass_fields__]


def test_the_direct_reader_knows_the_fields_of_the_model() -> None:
    assert set(_Usage.__struct_fields__) == set(UsageMetered.model_fields)
    assert set(SaidTerms.__struct_fields__) == set(UsageMetered.model_fields) - {
        *("seq", "start_ms", "end_ms", "running_ms", "busy_ms")
    }


def reader(known: UsageLine) -> Followers:
    source = Source([known], known.end_ms)
    return Followers({known.terms.source: source}, (-1, MARKET_TIME_MS_MAX), GRACE_MS, None)


def record_of(payload: bytes, known: UsageMetered) -> Record:
    return Record("usage", 0, 0, known.record_key(), UsageMetered.TYPE, payload)


def after(first: UsageMetered, seq: int, later_ms: int) -> dict[str, int]:
    """Return what a record has other than the one that it follows, a minute from some time on."""
    room_ms = MARKET_TIME_MS_MAX - first.end_ms - MINUTE_MS
    start_ms = first.end_ms + (later_ms % room_ms if room_ms > 0 else 0)
    return {"seq": seq, "start_ms": start_ms, "end_ms": start_ms + MINUTE_MS}


ODD: tuple[str, ...] = (
    *("null", "true", "false", "-0", "0", "-1", "1.0", "1e3", "1E0", "01", "0x1", '"1"', '""'),
    *("[]", "{}", "NaN", "Infinity", "9007199254740991", "9007199254740992", "1" + "0" * 30),
    *('"market"', '"overhang"', '"MARKET"', '"a\\u0062"', '"\\ud800"', '"a\\n"', '"a/b"', '"é"'),
    *("4102444800000", "4102444800001", "1.5", "+1", "tru", '"a'),
)
"""Texts that JSON has, or has not, in the place of a value."""


@st.composite
def texts(draw: st.DrawFn, usage: UsageMetered) -> bytes:
    """Return the text of a usage record in which some things are others than usual."""
    members = [
        [json.dumps(name), json.dumps(value)] for name, value in json.loads(usage.payload()).items()
    ]
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.integers(0, 5))
        place = draw(st.integers(0, len(members) - 1))
        if kind == 0:
            members[place][1] = draw(st.sampled_from(ODD))
        elif kind == 1:
            del members[place]
        elif kind == 2:
            members.append(['"extra"', draw(st.sampled_from(ODD))])
        elif kind == 3:
            members.insert(place, [members[place][0], draw(st.sampled_from(ODD))])
        elif kind == 4:
            members.append([members[place][0], draw(st.sampled_from(ODD))])
        else:
            members.insert(0, members.pop(place))
    space = draw(st.sampled_from(("", "", " ", "\n\t", "\ufeff", "\x00")))
    body = ",".join(f"{name}:{space}{value}" for name, value in members)
    payload = f"{space}{{{body}}}{space}".encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(payload)))
        payload = payload[:at] + draw(st.binary(max_size=2)) + payload[at + 1 :]
    return payload


@given(
    data=st.data(),
    first=usages() | light_usages(),
    seq=st.integers(0, NUMBER_MAX),
    later_ms=STARTS_MS,
)
def test_what_is_read_directly_is_what_the_model_reads(
    data: st.DataObject, first: UsageMetered, seq: int, later_ms: int
) -> None:
    known = line_of(first, GRACE_MS)
    following = first.model_copy(update=after(first, seq, later_ms))
    payload = data.draw(texts(following))
    line = reader(known).read(record_of(payload, first))
    if line is not None:
        usage = decode_usage(record_of(payload, first))
        assert isinstance(usage, UsageMetered)
        assert fields(line) == fields(line_of(usage, GRACE_MS))
        assert line.start_ms >= known.end_ms


@given(first=light_usages(), seq=st.integers(0, NUMBER_MAX))
def test_a_record_like_the_last_one_is_read_directly(first: UsageMetered, seq: int) -> None:
    known = line_of(first, GRACE_MS)
    following = first.model_copy(update=after(first, seq, 0))
    line = reader(known).read(record_of(following.payload(), first))
    assert line is not None
    assert (fields(line), line.terms is known.terms) == (
        fields(line_of(following, GRACE_MS)),
        True,
    )


@given(first=usages(), other=usages())
def test_a_record_of_another_source_under_a_key_of_this_one_is_left_to_the_model(
    first: UsageMetered, other: UsageMetered
) -> None:
    known = line_of(first, GRACE_MS)
    line = reader(known).read(record_of(other.payload(), first))
    assert line is None or line_of(other, GRACE_MS).terms == known.terms


def test_a_direct_reader_without_ranges_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: what the comparison with the model must find."""

    class Lax(SaidTerms, gc=False):
        seq: int
        start_ms: int
        end_ms: int
        running_ms: int | None = None
        busy_ms: int | None = None

    first = example_usage()
    beyond = json.loads(first.payload()) | after(first, NUMBER_MAX + 1, 0)
    record = record_of(json.dumps(beyond).encode(), first)
    assert isinstance(decode_usage(record), Fault)
    assert reader(line_of(first, GRACE_MS)).read(record) is None
    monkeypatch.setattr("walras_billing.usage_reading._DECODER", msgspec.json.Decoder(Lax))
    assert reader(line_of(first, GRACE_MS)).read(record) is not None


def example_usage() -> UsageMetered:
    return UsageMetered(
        lease="l",
        node="n",
        attempt=1,
        seq=0,
        team="t",
        pool="p",
        job="j",
        market="m",
        quantity_macc=1,
        start_ms=0,
        end_ms=1,
        work_class=WorkClass.MARKET,
        billable=True,
        limit_micro=None,
        tariff_ppm=PPM,
    )


@given(first=light_usages())
def test_each_field_of_the_terms_is_compared(first: UsageMetered) -> None:
    known = line_of(first, GRACE_MS)
    for name in SaidTerms.__struct_fields__:
        value = getattr(first, name)
        changed = another(value)
        if changed == value:
            continue
        following = first.model_copy(update=after(first, 1, 0))
        other = following.model_copy(update={name: changed})
        assert reader(known).read(record_of(following.payload(), first)) is not None
        assert reader(known).read(record_of(other.payload(), first)) is None, name


def another(value: object) -> object:
    """Return another value of the same kind; for some of the longest names it is the same."""
    match value:
        case None:
            return 0
        case bool():
            return not value
        case int():
            return value + 1
        case WorkClass():
            return next(each for each in WorkClass if each is not value)
        case _:
            return f"{value!s:.62}x"
