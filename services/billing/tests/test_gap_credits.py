"""Goodwill for gaps in the heartbeats, and where the bill of a silent lease ends."""

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    drain,
    price,
    usage,
)
from services.billing.tests.charge_audit import faults
from walras_contracts.charges import CreditReason, GapEnd
from walras_runtime.memory.runner import state_digest_input

UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""


def credited(bench: Bench) -> list[int]:
    """Amounts of the credits, in minutes of 60 accelerators at a price of 1."""
    return [int(credit.amount_numerator) // UNIT for credit in bench.credits()]


def charged(bench: Bench) -> int:
    return sum(int(line.amount_numerator) for line in bench.charges()) // UNIT


def test_a_gap_that_never_fills_gives_back_the_record_before_it_whole() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7), price(1, 9))
    bench.step(5, usage(0), usage(1, seq=1, minutes=2), usage(4, seq=3))
    for minute in range(6, 14):
        bench.step(minute)
    # The record before the gap is older than the look-back, the one behind it is not.
    assert bench.credits() == []
    for minute in range(14, 20):
        bench.step(minute)

    (gap,) = bench.gaps()
    assert (gap.first_seq, gap.end_seq, gap.ended) == (2, 3, GapEnd.NEVER)
    (credit,) = bench.credits()
    assert (credit.seq, credit.reason, credit.session) == (1, CreditReason.HEARTBEAT_GAP, "")
    assert credited(bench) == [-18]
    assert faults(bench.log) == []
    assert not any("/line/" in f"/{key}" for key in state_digest_input(bench.log, "billing"))


def test_what_a_failed_drain_gave_back_a_gap_does_not_give_back_again() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    bench.step(4, usage(0, minutes=3), usage(3, seq=2))
    bench.step(5, drain(1, 2))
    for minute in range(6, 20):
        bench.step(minute)

    by_reason = [(c.reason.value, int(c.amount_numerator) // UNIT) for c in bench.credits()]
    assert by_reason == [("drain_failed", -7), ("heartbeat_gap", -7), ("heartbeat_gap", -7)]
    assert faults(bench.log) == []


def test_a_gap_at_the_start_of_a_source_and_a_filled_one_give_nothing_back() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    bench.step(5, usage(1, seq=2), usage(3, seq=4))
    bench.step(6, usage(2, seq=3))
    for minute in range(7, 20):
        bench.step(minute)

    ends = [(gap.first_seq, gap.ended.value) for gap in bench.gaps()]
    assert ends == [(3, "filled"), (0, "never")]
    assert bench.credits() == []


def test_a_source_with_a_hole_behind_every_record_is_forgotten_all_the_same() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    for minute in range(1, 60):
        bench.step(minute, usage(minute - 1, seq=2 * minute))
        held = sum("line/" in key for key in state_digest_input(bench.log, "billing"))
        assert held <= 12
    assert len(bench.credits()) > 40


def test_r4_a_lease_that_falls_silent_is_billed_to_its_last_heartbeat() -> None:
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    for minute in range(1, 4):
        bench.step(minute, usage(minute - 1, seq=minute - 1))
    for minute in range(4, 40):
        bench.step(minute)

    assert max(line.end_ms for line in bench.charges()) == START_MS + 3 * MINUTE_MS
    assert (charged(bench), bench.credits(), bench.gaps()) == (21, [], [])
