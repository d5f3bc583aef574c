"""Goodwill for failed drains: what is given back, exactly, once, whenever it comes."""

import json
from dataclasses import replace

import pytest

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    Bench,
    drain,
    pool,
    price,
    usage,
)
from services.billing.tests.charge_audit import faults
from walras_billing.credits import credit_id
from walras_contracts.charges import CreditReason
from walras_contracts.work import DrainState, WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""


def credited(bench: Bench) -> list[int]:
    """Amounts of the credits, in minutes of 60 accelerators at a price of 1."""
    return [int(credit.amount_numerator) // UNIT for credit in bench.credits()]


def charged(bench: Bench) -> int:
    return sum(int(line.amount_numerator) for line in bench.charges()) // UNIT


def test_a_failed_drain_gives_back_what_its_lease_was_charged_from_the_warning_on() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(0), usage(1, seq=1), usage(2, seq=2))
    bench.step(4, usage(1, lease="l2"))
    bench.step(6, drain(1, 3))

    first, second = bench.credits()
    assert credited(bench) == [-7, -7]
    assert (first.start_ms, second.end_ms) == (START_MS + MINUTE_MS, START_MS + 3 * MINUTE_MS)
    assert (first.reason, first.session, first.lease) == (CreditReason.DRAIN_FAILED, "s1", "l1")
    line = next(line for line in bench.charges() if line.charge_id == first.credits)
    assert (line.lease, line.start_ms) == ("l1", first.start_ms)
    assert first.charge_id == credit_id(CreditReason.DRAIN_FAILED, first.start_ms, line.charge_id)
    assert faults(bench.log) == []


def test_the_id_of_a_credit_is_as_documented() -> None:
    # From `blake2b(b"drain_failed/3/" + b"0" * 32, digest_size=16, person=b"walras.credit")`.
    assert credit_id(CreditReason.DRAIN_FAILED, 3, "0" * 32) == "3096e8b0b6e5796f18e630e2ba7769ae"


def test_a_part_of_a_record_is_given_back_where_the_warning_came_inside_it() -> None:
    bench = Bench()
    bench.step(0, price(0, 6))
    bench.step(1, usage(0))
    bench.step(2)
    half = json.loads(drain(0, 1).payload or b"") | {"warned_ms": START_MS + MINUTE_MS // 2}
    bench.step(3, replace(drain(0, 1), payload=json.dumps(half).encode()))

    assert credited(bench) == [-3]
    assert faults(bench.log) == []


@pytest.mark.parametrize("state", [s for s in DrainState if s is not DrainState.FAILED])
def test_a_drain_that_did_not_fail_gives_nothing_back(state: DrainState) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    bench.step(3, drain(0, 1, state))

    assert (bench.credits(), charged(bench)) == ([], 7)


def test_use_that_is_rated_after_the_failure_is_given_back_as_it_is_rated() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), drain(0, 1))
    assert bench.credits() == []
    bench.step(2)
    assert credited(bench) == [-7]
    bench.step(9, usage(0, lease="l1", node="n2"))

    assert credited(bench) == [-7, -7]
    assert faults(bench.log) == []


@pytest.mark.parametrize(("late", "follows"), [(9, -2), (4, 3)])
def test_a_credit_follows_the_corrections_of_its_charge_up_and_down(
    late: int, follows: int
) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2, usage(0))
    bench.step(3, drain(0, 1))
    bench.step(4, price(0, late))

    assert credited(bench) == [-7, follows]
    charge, correction = bench.charges()
    assert [credit.credits for credit in bench.credits()] == [
        charge.charge_id,
        correction.charge_id,
    ]
    assert faults(bench.log) == []


def test_a_correction_from_before_the_failure_is_in_the_credit_of_its_charge() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2, usage(0))
    bench.step(3, price(0, 4))
    bench.step(4, drain(0, 1))

    assert credited(bench) == [-4]
    assert bench.credits()[0].credits == bench.charges()[0].charge_id
    assert faults(bench.log) == []


def test_late_use_is_given_back_by_the_lines_that_it_would_have_had_in_time() -> None:
    early, late = Bench(), Bench()
    for bench, minute in ((early, 1), (late, 8)):
        bench.step(0, price(0, 7))
        given = {minute: usage(0), 3: price(0, 4), 5: drain(0, 1), 7: price(0, 9)}
        for at in range(1, 10):
            bench.step(at, *([given[at]] if at in given else []))

    assert credited(early) == [-4, -5]
    assert late.credits() == early.credits()
    assert late.charges() == early.charges()


def test_use_that_comes_as_late_as_it_may_is_given_back_all_the_same() -> None:
    for crash in (False, True):
        bench = Bench(look_back_ms=600_000, crash=crash)
        bench.step(0, price(0, 7))
        bench.step(2, drain(0, 2))
        for minute in range(3, 11):
            bench.step(minute)
        # It begins where the look-back does. Then its claim is forgotten, and it a minute later.
        bench.step(11, usage(1))
        assert credited(bench) == [-7]
        bench.step(12)
        state = state_digest_input(bench.log, "billing")
        assert not any("/line/" in f"/{key}" or "/failed/" in f"/{key}" for key in state)
        # Another failure claims the forgotten time again, which gives nothing back twice.
        bench.step(13, drain(0, 4, session="s2"), usage(1), usage(3, seq=1))

        assert [(c.session, c.start_ms) for c in bench.credits()] == [
            ("s1", START_MS + MINUTE_MS),
            ("s2", START_MS + 3 * MINUTE_MS),
        ]
        assert [q.code for q in bench.quarantined()] == ["rejected_late"]
        assert faults(bench.log) == []


def test_two_failures_give_no_instant_back_twice() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(3, usage(0), usage(1, seq=1), usage(2, seq=2))
    bench.step(5, drain(0, 2), drain(0, 2), drain(0, 2, node="n2"))
    bench.step(6, drain(1, 3, session="s2"))
    bench.step(7, drain(0, 3, session="s3"))

    assert credited(bench) == [-7, -7, -7]
    assert [credit.session for credit in bench.credits()] == ["s1", "s1", "s2"]
    assert faults(bench.log) == []


def test_another_teams_failure_and_free_use_give_nothing_back() -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0), usage(0, lease="l2", work_class=WorkClass.OPPORTUNISTIC))
    bench.step(3, drain(0, 1, team="t2"), drain(0, 1, lease="l2"))

    assert bench.credits() == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (drain(3, 1), "reversed_interval"),
        (drain(-1500, 1), "longer_than_a_day"),
        (drain(0, 30), "future_time"),
        (drain(-1500, -1440), "rejected_late"),
    ],
)
def test_a_failure_with_wrong_times_is_quarantined_and_gives_nothing_back(
    failure: Output, code: str
) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(1, usage(0))
    bench.step(3, failure)

    (line,) = bench.quarantined()
    assert (line.code, line.topic, line.record) == (code, "drain.status", "s1/n")
    assert (line.team, line.pool, line.macc_ms) == ("t1", "p", None)
    assert bench.credits() == []


def test_the_wallet_gets_back_what_was_given_back() -> None:
    bench = Bench()
    bench.step(0, pool({"t1": 1}), price(0, 70_000))
    bench.step(1, usage(0))
    bench.step(3, drain(0, 1))
    bench.step(6)

    balance = bench.balances()["t1"]
    assert (balance.spent_micro, balance.credited_micro) == (70_000, 70_000)
    assert balance.wallet_micro == balance.earned_micro == 100_000
