"""Use that is not charged: why, with what it says, and without a trace in any total."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    pool,
    price,
    price_gap,
    usage,
)
from services.billing.tests.charge_audit import faults
from services.billing.tests.record_bodies import body
from walras_billing.decoding import said_by
from walras_contracts.charges import UsageQuarantined
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, Record

UNIT = 10**6 * 60_000 * MINUTE_MS
MACC_MS = str(60_000 * MINUTE_MS)


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) // UNIT for line in bench.charges()]


def only(bench: Bench) -> UsageQuarantined:
    (found,) = bench.quarantined()
    return found


def test_use_of_a_team_that_no_document_names_is_quarantined_with_all_that_it_says() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 7))
    bench.step(1, usage(0), usage(0, lease="l2", team="t9"))
    bench.step(2)

    found = only(bench)
    assert (found.code, found.record, found.topic) == ("unknown_team", "l2/n/1/0", "usage")
    assert (found.team, found.pool, found.macc_ms) == ("t9", "p", MACC_MS)
    assert amounts(bench) == [7]
    assert "t9" not in bench.balances()


def test_a_team_is_known_from_the_time_on_at_which_its_document_counts_and_stays_so() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 7))
    bench.step(3, pool({"t1": 1, "t2": 1}, version=2, minute=5))
    bench.step(6, usage(4, lease="l2", team="t2"), usage(5, lease="l2", team="t2", seq=1))
    bench.step(8, pool({"t1": 1}, version=3, minute=10))
    # It left, and what it still ran is charged all the same.
    bench.step(13, usage(11, lease="l2", team="t2", seq=2))
    bench.step(14)

    assert only(bench).record == "l2/n/1/0"
    assert [line.seq for line in bench.charges()] == [1, 2]


def test_use_of_a_pool_that_has_no_document_is_quarantined_with_all_that_it_says() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 7))
    bench.step(1, usage(0), body(usage(0, lease="l2"), pool="nowhere"))
    bench.step(6)

    found = only(bench)
    assert (found.code, found.record, found.topic) == ("unknown_pool", "l2/n/1/0", "usage")
    assert (found.team, found.pool, found.macc_ms) == ("t1", "nowhere", MACC_MS)
    assert found.reason == "pool nowhere has no document that counted at start_ms or before"
    assert amounts(bench) == [7]


def test_a_pool_is_known_from_its_first_document_on_whoever_is_in_it() -> None:
    """A team that moves there is in no document of it for a while, and is charged all the same."""
    for crash in (False, True):
        bench = Bench(crash=crash)
        bench.step(0, pool({"t1": 1}), price(0, 7), pool({}, name="q", minute=3))
        given = [body(usage(at, lease="l2", seq=at), pool="q") for at in (2, 3, 4)]
        bench.step(6, *given, body(usage(3, lease="l3"), pool="r"))
        # An empty document is one, too; and a later version changes nothing.
        bench.step(7, pool({}, name="q", version=2, minute=9))
        bench.step(8, body(usage(7, lease="l2", seq=7), pool="q"))

        codes = [(q.code, q.record) for q in bench.quarantined()]
        assert codes == [("unknown_pool", "l2/n/1/2"), ("unknown_pool", "l3/n/1/0")]
        charged = len(bench.charges()) + len(bench.pending())
        assert charged == 2


def test_use_of_strangers_is_not_reported_as_late() -> None:
    """Late use is reported on an invoice, and there is none for a stranger."""
    bench = Bench(look_back_ms=600_000)
    bench.step(0, price(0, 7))
    strangers = (
        usage(0, team="t9"),
        body(usage(0, lease="l2"), pool="nowhere"),
        usage(0, lease="l3", market="nowhere"),
    )
    bench.step(20, usage(0, lease="l4"), *strangers)

    found = {q.record: q.code for q in bench.quarantined()}
    assert found == {
        "l1/n/1/0": "unknown_team",
        "l2/n/1/0": "unknown_pool",
        "l3/n/1/0": "unknown_market",
        "l4/n/1/0": "rejected_late",
    }


def test_use_of_a_market_of_which_nothing_was_ever_heard_is_quarantined() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), usage(0, lease="l2", market="nowhere"))
    bench.step(2)

    assert (only(bench).code, only(bench).macc_ms) == ("unknown_market", MACC_MS)
    assert (amounts(bench), bench.pending()) == ([7], {})


@pytest.mark.parametrize(
    "word", [price(0, 3), price(0, None), price_gap(0, 1)], ids=["price", "no price", "gap"]
)
def test_any_word_about_a_market_makes_it_known(word: Output) -> None:
    bench = Bench()
    named = replace(
        word, key="b", payload=(word.payload or b"").replace(b'"market":"a"', b'"market":"b"')
    )
    bench.step(0)
    bench.step(1, named, usage(0, market="b"))
    bench.step(2)

    assert bench.quarantined() == []
    assert len(bench.charges()) + len(bench.pending()) == 1


def test_a_clock_that_goes_back_below_a_lower_number_is_noticed() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(6, usage(4), usage(5, seq=1), usage(2, seq=2), usage(6, seq=3))
    bench.step(9)

    assert (only(bench).code, only(bench).record) == ("clock_jump", "l1/n/1/2")
    assert [line.seq for line in bench.charges()] == [0, 1, 3]
    assert faults(bench.log) == []


def test_a_lower_number_that_comes_later_for_a_later_time_is_a_clock_jump_too() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(0), usage(2, seq=2))
    bench.step(6, usage(4, seq=1))
    bench.step(9)

    assert (only(bench).code, only(bench).record) == ("clock_jump", "l1/n/1/1")
    assert bench.gaps() == []


def test_a_clock_jump_that_is_told_again_is_quarantined_again_and_never_charged() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(6, usage(4), usage(2, seq=1))
    bench.step(7, usage(2, seq=1))
    bench.step(9)

    assert [q.code for q in bench.quarantined()] == ["clock_jump", "clock_jump"]
    assert amounts(bench) == [7]


def test_an_instant_of_two_attempts_of_a_lease_on_a_node_belongs_to_the_lower_one() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    # Attempt 2 began a minute before attempt 1 was over, by its own clock.
    bench.step(4, usage(0, minutes=3), usage(2, minutes=2, attempt=2))
    bench.step(6)

    spans = [
        (c.attempt, (c.start_ms - START_MS) // MINUTE_MS, (c.end_ms - START_MS) // MINUTE_MS)
        for c in bench.charges()
    ]
    assert spans == [(1, 0, 3), (2, 3, 4)]
    assert (only(bench).code, only(bench).record) == ("overlap", "l1/n/2/0")
    assert faults(bench.log) == []


def test_a_lower_attempt_that_comes_later_takes_back_what_the_higher_one_was_charged() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(1, minutes=2, attempt=2))
    bench.step(5)
    bench.step(6, usage(0, minutes=2))

    found = {(c.attempt, c.reason.value, int(c.amount_numerator) // UNIT) for c in bench.charges()}
    assert found == {(2, "usage", 14), (1, "usage", 14), (2, "overlap", -7)}
    assert faults(bench.log) == []


def test_late_attempts_of_one_step_are_taken_by_number_and_not_by_name() -> None:
    """As text, 10 comes before 2."""
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(9)
    bench.step(10, usage(0, minutes=2, attempt=10), usage(0, minutes=1, attempt=2))

    found = [(c.attempt, c.reason.value, int(c.amount_numerator) // UNIT) for c in bench.charges()]
    assert found == [(10, "usage", 7), (2, "usage", 7)]
    assert faults(bench.log) == []


def test_parts_of_a_gang_on_other_nodes_are_no_rivals() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(0), usage(0, node="n2", attempt=2), usage(0, lease="l2", attempt=2))
    bench.step(4)

    assert amounts(bench) == [7, 7, 7]
    assert bench.quarantined() == []


@settings(deadline=None, max_examples=30)
@given(
    records=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 3), st.integers(2, 9)),
        max_size=7,
        unique_by=lambda r: r[2],
    ),
    crash=st.booleans(),
)
def test_attempts_are_charged_no_instant_twice_in_whatever_order_they_come(
    records: list[tuple[int, int, int, int]], crash: bool
) -> None:
    bench = Bench(crash=crash)
    bench.step(0, price(0, 7))
    for minute in range(2, 14):
        given = [
            usage(start, minutes=length, attempt=attempt)
            for start, length, attempt, comes in records
            if max(comes, start + length) == minute
        ]
        bench.step(minute, *given)

    covered = {at for start, length, _, _ in records for at in range(start, start + length)}
    assert sum(amounts(bench)) == 7 * len(covered)
    assert faults(bench.log) == []


def test_use_that_waits_too_long_for_its_price_is_given_up_and_charged_no_more() -> None:
    bench = Bench(look_back_ms=600_000, price_wait_ms=3_600_000)
    bench.step(0, price(0, None))
    bench.step(1, usage(0))
    bench.step(2)
    for minute in range(10, 61, 10):
        bench.step(minute)
    assert len(bench.pending()) == 1
    bench.step(61)

    found = only(bench)
    assert (found.code, found.record, found.macc_ms) == ("never_priced", "l1/n/1/0", MACC_MS)
    assert (found.start_ms, found.end_ms, found.offset) == (START_MS, START_MS + MINUTE_MS, -1)
    assert bench.pending() == {}
    bench.step(62, price(0, 9))
    assert bench.charges() == []
    assert not any("line/" in key for key in state_digest_input(bench.log, "billing"))


def test_use_that_was_given_up_but_is_still_remembered_is_charged_no_more() -> None:
    """It is the record before a gap, which is kept until it is known what becomes of the gap."""
    runs = []
    for crash in (False, True):
        bench = Bench(look_back_ms=600_000, price_wait_ms=600_000, crash=crash)
        bench.step(0, price(0, None), price(3, 5))
        bench.step(10, usage(0), usage(9, seq=2))
        bench.step(12)
        assert [q.code for q in bench.quarantined()] == ["never_priced"]
        bench.step(13, price(0, 9))
        for minute in range(14, 22):
            bench.step(minute)
        assert amounts(bench) == [5]
        assert bench.credits() == []
        runs.append(bench.log.entries)

    assert runs[0] == runs[1]


def test_what_waits_is_bounded_where_a_market_has_no_price_for_ever() -> None:
    bench = Bench(look_back_ms=600_000, price_wait_ms=600_000)
    bench.step(0, price(0, None))
    for minute in range(1, 60):
        bench.step(minute, usage(minute - 1, seq=minute - 1))
        assert len(bench.pending()) <= 11
    assert len(bench.quarantined()) > 40


SAYS: list[tuple[dict[str, Any], str | None, str | None, str | None]] = [
    ({"end_ms": START_MS + 50 * MINUTE_MS}, "t1", "p", str(60_000 * 50 * MINUTE_MS)),
    ({"quantity_macc": 0}, "t1", "p", "0"),
    ({"quantity_macc": -5}, "t1", "p", None),
    ({"end_ms": START_MS - 1}, "t1", "p", None),
    ({"start_ms": None}, "t1", "p", None),
    ({"team": "no id!", "quantity_macc": 0}, None, "p", "0"),
    ({"pool": 7}, "t1", None, MACC_MS),
    ({"work_class": "vip"}, "t1", "p", MACC_MS),
]


@pytest.mark.parametrize(("changes", "team", "pool_name", "macc_ms"), SAYS)
def test_what_a_faulty_record_says_of_its_size_is_told_as_far_as_it_can_be_read(
    changes: dict[str, Any], team: str | None, pool_name: str | None, macc_ms: str | None
) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, body(usage(0), **changes))

    found = only(bench)
    assert (found.team, found.pool, found.macc_ms) == (team, pool_name, macc_ms)


@settings(deadline=None, max_examples=200)
@given(value=st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode)))
def test_no_bytes_are_too_strange_to_be_asked_what_they_say(value: bytes) -> None:
    record = Record("usage", 0, 0, "key", "walras.usage.metered.v1", value)
    team, pool_name, macc_ms = said_by(record)
    assert (team, pool_name, macc_ms) == (None, None, None)
