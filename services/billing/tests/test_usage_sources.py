"""Usage by source: repetitions, overlaps, gaps in the numbers, and what is forgotten of it."""

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    price,
    usage,
)
from services.billing.tests.charge_audit import faults
from walras_contracts.charges import GapEnd
from walras_runtime.memory.runner import state_digest_input

UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) for line in bench.charges()]


def test_a_repetition_changes_nothing_and_another_body_is_quarantined() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), usage(0), usage(0, macc=1))
    bench.step(2, usage(0), usage(0, limit=3))
    bench.step(3)

    assert amounts(bench) == [7 * UNIT]
    assert [(q.code, q.record) for q in bench.quarantined()] == [("other_body", "l1/n/1/0")] * 2


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
