"""Charge lines on a log: each use at the price of its position, corrected when it changes."""

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    price,
    usage,
)
from services.billing.tests.charge_audit import faults
from services.billing.tests.record_bodies import body
from walras_billing.rating import charge_id
from walras_contracts.work import WorkClass

UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) for line in bench.charges()]


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
