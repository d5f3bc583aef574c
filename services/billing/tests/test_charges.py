"""Charge lines on a log: each use once, at the price of its position, corrected when it changes."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    pool,
    price,
    usage,
)
from services.billing.tests.charge_audit import faults
from services.billing.tests.day_properties import (
    expect_no_crash_to_show,
    expect_no_order_to_show,
    expect_the_same_from_a_replay,
)
from walras_billing.prices import PriceHistory, Segment, View
from walras_billing.rating import charge_id
from walras_contracts.charges import GapEnd
from walras_contracts.work import WorkClass
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=15, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) for line in bench.charges()]


def body(output: Output, **changes: Any) -> Output:
    """Return a usage record with other bytes; None takes a field away."""
    document = json.loads(output.payload or b"") | changes
    kept = {name: value for name, value in document.items() if value != "absent"}
    return replace(output, payload=json.dumps(kept).encode())


def test_use_is_rated_in_the_first_step_a_grace_behind_its_end() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    assert bench.charges() == []
    bench.step(2)

    (line,) = bench.charges()
    assert (line.price_micro, line.price_barrier, line.corrects) == (7, 0, None)
    assert line.prices_until_ms == START_MS + 2 * MINUTE_MS
    assert line.charge_id == charge_id("l1/n/1", 0, START_MS)
    assert int(line.amount_numerator) == 7 * UNIT


def test_a_price_that_comes_within_the_grace_counts_and_one_after_it_corrects() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    bench.step(2, price(0, 9))
    assert amounts(bench) == [9 * UNIT]
    bench.step(3, price(0, 4))

    first, second = bench.charges()
    assert (second.corrects, second.reason, second.price_barrier) == (
        first.charge_id,
        "late_price",
        3,
    )
    assert amounts(bench) == [9 * UNIT, -5 * UNIT]
    assert faults(bench.log) == []


def test_late_use_starts_as_it_would_have_in_time_and_is_corrected_at_once() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2)
    bench.step(3, price(0, 4))
    bench.step(9, usage(0))

    assert amounts(bench) == [7 * UNIT, -3 * UNIT]
    assert [line.price_barrier for line in bench.charges()] == [0, 2]


def test_use_without_a_price_waits_on_its_own_topic_and_is_rated_once() -> None:
    bench = Bench()
    bench.step(0, price(0, None))
    bench.step(1, usage(0))
    bench.step(2)
    assert (bench.charges(), [*bench.pending()]) == ([], [f"l1/n/1/0/{START_MS}"])
    bench.step(30, price(0, 5))
    bench.step(31)

    assert (amounts(bench), bench.pending()) == ([5 * UNIT], {})
    assert bench.charges()[0].reason == "usage"


def test_o5_a_price_beyond_its_age_is_not_used_and_the_real_one_is_once() -> None:
    bench = Bench(max_price_age_ms=15 * MINUTE_MS)
    bench.step(0, price(0, 3))
    bench.step(21, usage(20))
    bench.step(22)
    assert (bench.charges(), len(bench.pending())) == ([], 1)
    bench.step(40, price(20, 5))
    bench.step(41)

    assert (amounts(bench), bench.pending()) == ([5 * UNIT], {})


def test_a_price_that_turns_out_unknown_takes_the_charge_back_until_it_is_known() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    bench.step(2)
    bench.step(3, price(0, None))
    assert (sum(amounts(bench)), len(bench.pending())) == (0, 1)
    bench.step(4, price(0, 6))

    assert (amounts(bench), bench.pending()) == ([7 * UNIT, -7 * UNIT, 6 * UNIT], {})
    assert [line.corrects is None for line in bench.charges()] == [True, False, False]


def test_opportunistic_use_has_a_line_of_zero_even_without_a_price() -> None:
    bench = Bench()
    bench.step(0)
    bench.step(1, usage(0, work_class=WorkClass.OPPORTUNISTIC))
    bench.step(2)

    assert [(line.price_micro, line.amount_numerator) for line in bench.charges()] == [(0, "0")]


def test_a_repetition_changes_nothing_and_another_body_is_quarantined() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), usage(0), usage(0, macc=1))
    bench.step(2, usage(0), usage(0, limit=3))
    bench.step(3)

    assert amounts(bench) == [7 * UNIT]
    assert [(q.code, q.record) for q in bench.quarantined()] == [("other_body", "l1/n/1/0")] * 2


BAD: list[tuple[dict[str, Any], str]] = [
    ({"start_ms": START_MS + MINUTE_MS, "end_ms": START_MS}, "reversed_interval"),
    # O4: start 2027-01-17T10:31:11Z, end 2018-08-12T13:18:48Z.
    ({"start_ms": 1_800_181_871_000, "end_ms": 1_534_079_928_000}, "reversed_interval"),
    ({"start_ms": START_MS, "end_ms": START_MS}, "empty_interval"),
    ({"start_ms": -5}, "negative_time"),
    ({"start_ms": START_MS - 90_000_000}, "longer_than_a_day"),
    # O6: a stop whose start nobody saw.
    ({"start_ms": None}, "stop_without_start"),
    ({"start_ms": "absent"}, "stop_without_start"),
    ({"end_ms": None}, "start_without_stop"),
    ({"quantity_macc": 0}, "quantity_not_positive"),
    ({"quantity_macc": -8}, "quantity_not_positive"),
    ({"quantity_macc": 10**16}, "out_of_range"),
    ({"limit_micro": -1}, "out_of_range"),
    ({"tariff_ppm": 10**10}, "out_of_range"),
    ({"work_class": "vip"}, "unknown_class"),
    ({"end_ms": START_MS + 10 * MINUTE_MS}, "future_time"),
    ({"start_ms": START_MS - 86_400_000, "end_ms": START_MS - 86_340_000}, "rejected_late"),
    ({"quantity_macc": 1.5}, "malformed"),
    ({"team": "absent"}, "malformed"),
]


@pytest.mark.parametrize(("changes", "code"), BAD, ids=[f"{c}-{n}" for n, (_, c) in enumerate(BAD)])
def test_bad_use_is_quarantined_with_its_coordinates_and_changes_no_total(
    changes: dict[str, Any], code: str
) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), body(usage(0, seq=1), **changes))
    bench.step(2)

    (line,) = bench.quarantined()
    assert (line.code, line.topic, line.offset) == (code, "usage", 2)
    assert (line.record, line.start_ms) == ("l1/n/1/1", None)
    assert amounts(bench) == [7 * UNIT]


def test_bytes_that_are_no_event_are_quarantined_and_a_newer_version_stops_the_partition() -> None:
    bench = Bench()
    bench.step(0, replace(usage(0), payload=b"\xff{"), replace(usage(0), payload=None))
    assert [q.code for q in bench.quarantined()] == ["malformed", "malformed"]
    with pytest.raises(PartitionStoppedError):
        bench.step(1, replace(usage(0), type="walras.usage.metered.v2"))


def test_of_two_records_that_overlap_the_lower_number_is_charged() -> None:
    bench = Bench()
    bench.step(0, price(0, 10))
    # Number 1 covers minutes 0 to 2; number 0, which came with it, minute 0.
    bench.step(2, usage(0, seq=1, minutes=2), usage(0))
    bench.step(5)

    assert [(c.seq, c.start_ms - START_MS, c.end_ms - START_MS) for c in bench.charges()] == [
        (0, 0, MINUTE_MS),
        (1, MINUTE_MS, 2 * MINUTE_MS),
    ]
    (lost,) = bench.quarantined()
    assert (lost.code, lost.record) == ("overlap", "l1/n/1/1")
    assert (lost.start_ms, lost.end_ms) == (START_MS, START_MS + MINUTE_MS)


def test_a_lower_number_that_comes_later_takes_back_what_the_higher_one_was_charged() -> None:
    bench = Bench()
    bench.step(0, price(0, 10))
    bench.step(2, usage(0, seq=1, minutes=2))
    bench.step(3)
    bench.step(5, usage(1))

    found = {(c.seq, c.reason, int(c.amount_numerator) // UNIT) for c in bench.charges()}
    assert found == {(1, "usage", 20), (0, "usage", 10), (1, "overlap", -10)}
    assert faults(bench.log) == []


def test_numbers_that_are_passed_over_are_reported_when_they_come_or_never_will() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 10))
    bench.step(5, usage(0), usage(2, seq=2), usage(3, seq=5), usage(4, seq=6))
    assert bench.gaps() == []
    bench.step(6, usage(1, seq=1))
    (filled,) = bench.gaps()
    assert (filled.first_seq, filled.end_seq, filled.ended) == (1, 2, GapEnd.FILLED)
    bench.step(30)

    assert [(g.first_seq, g.end_seq, g.ended) for g in bench.gaps()[1:]] == [(3, 5, GapEnd.NEVER)]


def test_what_is_older_than_the_look_back_is_forgotten_and_can_be_charged_no_more() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 10))
    bench.step(1, usage(0))
    bench.step(11, price(1, 10))
    bench.step(1600, price(1599, 3), usage(0), price(0, 99))
    bench.step(1610, usage(1608))

    assert amounts(bench) == [10 * UNIT, 3 * UNIT]
    assert [q.code for q in bench.quarantined()] == ["rejected_late"]
    bench.step(4000)
    bench.step(4001, price(4001, 3))
    bench.step(8000)
    kinds = [key.split("/")[1] for key in state_digest_input(bench.log, "billing")]
    partitions = len(bench.stages())
    assert (kinds.count("line"), kinds.count("price")) == (0, partitions)


def test_what_waits_for_its_price_is_kept_beyond_the_look_back_with_the_prices_around_it() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 10), price(1, None), price(3, 20))
    bench.step(3, usage(1), usage(2, seq=1))
    for minute in range(4, 1600, 60):
        bench.step(minute, price(minute, 30))
    bench.compact()
    assert len(bench.pending()) == 2
    # A price for minute 0 says nothing of minute 1, which is known to be unknown.
    bench.step(1601, price(0, 55))
    assert bench.charges() == []
    bench.step(1602, price(2, 40))
    bench.step(1603, price(1, 50))

    assert (amounts(bench), bench.pending()) == ([40 * UNIT, 50 * UNIT], {})
    bench.step(1604)
    assert not any("line/" in key for key in state_digest_input(bench.log, "billing"))


def test_use_with_a_longer_grace_than_is_remembered_now_is_rated_all_the_same() -> None:
    bench = Bench(price_grace_ms=60 * MINUTE_MS)
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    for minute in (20, 40, 61):
        bench.restart(look_back_ms=10 * MINUTE_MS)
        bench.step(minute)

    assert amounts(bench) == [7 * UNIT]
    assert not any("line/" in key for key in state_digest_input(bench.log, "billing"))


def test_o3_the_attempts_of_a_job_are_charged_apart_and_the_gaps_between_them_are_not() -> None:
    bench = Bench()
    bench.step(0, price(0, 36_000))
    start_ms = START_MS
    for attempt, seconds in enumerate((3_889, 4_473, 6_122, 2_153)):
        record = body(
            usage(0),
            attempt=attempt,
            quantity_macc=1000,
            start_ms=start_ms,
            end_ms=start_ms + seconds * 1000,
        )
        start_ms += seconds * 1000 + 90_000
        bench.step(1 + (start_ms - START_MS) // MINUTE_MS, record)
    bench.step(400)

    assert len({line.attempt for line in bench.charges()}) == 4
    # 36,000 µcr an hour are 10 µcr a second.
    assert sum(amounts(bench)) == 16_637 * 10 * 36 * 10**14


def a_day(seed: int, bench: Bench, *, shuffle: bool = False, delay: bool = True) -> None:
    """Forty minutes of use and prices, both late at times, repeated, with holes and overlaps."""
    draw, order = random.Random(seed), random.Random(seed + 1)
    arriving: dict[int, list[Output]] = {}
    numbers: dict[str, int] = {}
    given = arriving.setdefault(0, [])
    given.append(pool({"t1": 2, "t2": 5, "t3": 0}))
    for minute in range(40):
        lag = draw.choice((0, 0, 0, 1, 4, 9))
        if draw.random() < 0.6:
            micro = draw.choice((None, 0, 70_001, 99_991))
            arriving.setdefault(minute + lag, []).append(price(minute, micro))
        for lease in ("l1", "l2", "l3"):
            number = numbers[lease] = numbers.get(lease, -1) + draw.choice((1, 1, 1, 1, 2))
            record = usage(
                max(0, minute - draw.choice((0, 0, 0, 0, 1))),
                seq=number,
                lease=lease,
                team=f"t{lease[1]}",
                macc=draw.randrange(1, 10**6),
                work_class=draw.choice((*WorkClass, WorkClass.MARKET, WorkClass.MARKET)),
                limit=draw.choice((None, None, 80_000)),
            )
            late = draw.choice((0, 0, 0, 2, 7)) if delay else 0
            for _ in range(draw.choice((1, 1, 2))):
                arriving.setdefault(minute + 1 + late, []).append(record)
    for minute in range(55):
        given = arriving.get(minute, [])
        if shuffle:
            order.shuffle(given)
        bench.step(minute, *given)


@PROPERTY
@given(seed=SEED)
def test_an_independent_audit_agrees_with_every_line_and_every_wallet(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)

    assert faults(bench.log) == []
    assert bench.spent_numerator() == sum(amounts(bench))


@PROPERTY
@given(seed=SEED)
def test_a_crash_before_every_step_leaves_the_same_bytes_on_every_topic(seed: int) -> None:
    expect_no_crash_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_the_order_inside_a_step_changes_no_line_and_no_state(seed: int) -> None:
    expect_no_order_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_replaying_the_inputs_into_an_empty_state_gives_the_same_keys_and_payloads(
    seed: int,
) -> None:
    expect_the_same_from_a_replay(a_day, seed)


def test_o1_a_rater_that_dies_three_times_before_its_checkpoint_writes_no_line_twice() -> None:
    start_ms = 1_768_262_437_000  # 2026-01-13T00:00:37Z
    clean, killed = Bench(), Bench()
    for bench in (clean, killed):
        first = (start_ms - START_MS) // MINUTE_MS
        bench.step(first, body(price(0, 36_000), market_time_ms=start_ms))
        for minute in range(30):
            from_ms = start_ms + minute * MINUTE_MS
            record = body(usage(0), seq=minute, start_ms=from_ms, end_ms=from_ms + MINUTE_MS)
            if bench is killed and minute in {7, 8, 21}:
                bench.die_before_commit = True
            bench.step(first + minute + 2, record)
    assert killed.deaths == 3
    assert killed.charges() == clean.charges()
    assert len(clean.charges()) > 25


class NewestPrices(PriceHistory):
    """The broken build: rates with the newest prices instead of those of the line's position."""

    def segments(
        self,
        series: str,
        pool: str,
        span: tuple[int, int],
        view: View,
        max_age_ms: int | None = None,
    ) -> list[Segment]:
        return super().segments(series, pool, span, View(view.until_ms, 10**9), max_age_ms)


def test_a_build_that_joins_use_against_the_newest_price_is_caught() -> None:
    """The canary: late use of a time whose price was corrected meanwhile."""
    caught = 0
    for seed in range(5):
        bench = Bench()
        for stage in bench.stages():
            stage.state.prices = NewestPrices()
        a_day(seed, bench)
        caught += bool(faults(bench.log))
    assert caught == 5


@pytest.mark.parametrize("field", ["amount_numerator", "price_micro", "corrects", "end_ms"])
def test_the_audit_refuses_a_line_that_was_tampered_with(field: str) -> None:
    bench = Bench()
    a_day(3, bench)
    for partition in bench.log.partitions("charges"):
        held = bench.log.entries.get(("charges", partition), [])
        for index, entry in enumerate(held):
            if entry.barrier is not None or entry.payload is None:
                continue
            document = json.loads(entry.payload)
            other = {"amount_numerator": "17", "price_micro": 3, "corrects": "0" * 32}
            document[field] = other.get(field, document["end_ms"] + 1)
            held[index] = replace(entry, payload=json.dumps(document).encode())
            assert faults(bench.log)
            return
    raise AssertionError("no line to tamper with")


def test_the_days_contain_all_that_they_are_meant_to_contain() -> None:
    seen: set[str] = set()
    for seed in range(8):
        bench = Bench()
        a_day(seed, bench)
        seen |= {line.reason.value for line in bench.charges()}
        seen |= {line.code for line in bench.quarantined()}
        seen |= {f"gap {gap.ended.value}" for gap in bench.gaps()}
        seen |= {"pending"} if bench.pending() else set()
    assert seen == {"usage", "late_price", "overlap", "gap filled", "pending"}
