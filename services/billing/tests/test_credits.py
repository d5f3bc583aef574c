"""Goodwill: what failed drains and heartbeat gaps give back, exactly, once, whenever it comes."""

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
    drain,
    pool,
    price,
    price_gap,
    usage,
)
from services.billing.tests.charge_audit import faults
from services.billing.tests.day_properties import (
    expect_no_crash_to_show,
    expect_no_order_to_show,
    expect_the_same_from_a_replay,
)
from walras_billing.credits import credit_id, drain_credits
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.charges import CreditReason, GapEnd
from walras_contracts.work import DrainState, WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=10, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
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


def a_day(seed: int, bench: Bench, *, shuffle: bool = False) -> None:
    """Forty minutes in which drains fail, prices come late or not at all, attempts overlap."""
    draw, order = random.Random(seed), random.Random(seed + 1)
    arriving: dict[int, list[Output]] = {0: [pool({"t1": 2, "t2": 5, "t3": 0})]}
    numbers: dict[tuple[str, int], int] = {}
    attempts = dict.fromkeys(("l1", "l2", "l3"), 1)
    dark = draw.randrange(5, 25)
    length = draw.choice((0, 4, 9))
    for minute in range(40):
        lag = draw.choice((0, 0, 1, 4, 9))
        if not dark <= minute < dark + length and draw.random() < 0.6:
            micro = draw.choice((None, 0, 70_001, 99_991))
            arriving.setdefault(minute + lag, []).append(price(minute, micro))
        if minute == dark + length and length:
            gap = price_gap(dark, minute, draw.choice([*PriceGapPolicy]))
            given = [gap, price(minute, 80_003)] if draw.random() < 0.5 else [gap]
            arriving.setdefault(minute + lag, []).extend(given)
        for lease in attempts:
            if draw.random() < 0.1:
                attempts[lease] += 1
            source = (lease, attempts[lease])
            number = numbers[source] = numbers.get(source, -1) + draw.choice((1, 1, 1, 2))
            record = usage(
                max(0, minute - draw.choice((0, 0, 0, 1))),
                seq=number,
                lease=lease,
                team=f"t{lease[1]}",
                macc=draw.randrange(1, 10**6),
                work_class=draw.choice((*WorkClass, WorkClass.MARKET)),
                limit=draw.choice((None, None, 80_000)),
                attempt=attempts[lease],
                billable=draw.random() < 0.9,
            )
            late = draw.choice((0, 0, 0, 2, 7))
            for _ in range(draw.choice((1, 1, 2))):
                arriving.setdefault(minute + 1 + late, []).append(record)
            if draw.random() < 0.06:
                warned = max(0, minute - draw.choice((0, 1, 3)))
                failure = drain(
                    warned,
                    minute + 1,
                    lease=lease,
                    team=f"t{lease[1]}",
                    session=f"s{minute}",
                    node=draw.choice(("n", "n2")),
                )
                arriving.setdefault(minute + 1 + draw.choice((0, 0, 3, 9)), []).append(failure)
    for minute in range(58):
        given = arriving.get(minute, [])
        if shuffle:
            given = _shuffled(given, order)
        bench.step(minute, *given)


def _shuffled(given: list[Output], order: random.Random) -> list[Output]:
    """Return outputs in another order, save prices: of two for one time the later one counts."""
    prices = iter([output for output in given if output.topic == "prices"])
    mixed = order.sample(given, len(given))
    return [next(prices) if output.topic == "prices" else output for output in mixed]


@PROPERTY
@given(seed=SEED)
def test_an_independent_audit_agrees_with_every_charge_and_every_credit(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)

    assert faults(bench.log) == []
    state = state_digest_input(bench.log, "billing")
    wallets = [json.loads(v) for k, v in state.items() if k.split("/")[1] == "wallet"]
    held = sum(account[4] for wallet in wallets for account in wallet[1].values())
    assert held == -sum(int(credit.amount_numerator) for credit in bench.credits())


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
def test_replaying_the_inputs_into_an_empty_state_gives_the_same_bytes(seed: int) -> None:
    expect_the_same_from_a_replay(a_day, seed, look_back_ms=1_200_000)


def test_the_days_contain_all_that_they_are_meant_to_contain() -> None:
    seen: set[str] = set()
    for seed in range(12):
        bench = Bench(look_back_ms=1_200_000)
        a_day(seed, bench)
        seen |= {line.reason.value for line in bench.charges()}
        seen |= {line.code for line in bench.quarantined()}
        seen |= {f"{credit.reason.value} credit" for credit in bench.credits()}
        seen |= {"raised" for credit in bench.credits() if int(credit.amount_numerator) > 0}
    assert seen >= {
        *("usage", "late_price", "overlap", "raised"),
        *("drain_failed credit", "heartbeat_gap credit"),
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_build_that_forgets_to_follow_corrections_is_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: only what was charged when the failure became known is given back."""

    def forgetful(line: Any, steps: Any, claims: Any) -> Any:
        known = {claim.barrier for claim in claims}
        return [found for found in drain_credits(line, steps, claims) if found[0] in known]

    monkeypatch.setattr("walras_billing.core.drain_credits", forgetful)
    wrong = 0
    for number in range(6):
        bench = Bench()
        a_day(6 * seed + number, bench)
        wrong += bool(faults(bench.log))
    assert wrong


@pytest.mark.parametrize("field", ["amount_numerator", "credits", "start_ms", "charge_id"])
def test_the_audit_refuses_a_credit_that_was_tampered_with(field: str) -> None:
    bench = Bench()
    bench.step(0, price(0, 7))
    bench.step(2, usage(0))
    bench.step(3, drain(0, 1))
    assert faults(bench.log) == []
    for partition in bench.log.partitions("charges"):
        held = bench.log.entries.get(("charges", partition), [])
        for index, entry in enumerate(held):
            document = json.loads(entry.payload or b"{}") if entry.barrier is None else {}
            if "credits" not in document:
                continue
            other = {"amount_numerator": "-17", "credits": "0" * 32, "charge_id": "1" * 32}
            document[field] = other.get(field, document["start_ms"] + 1)
            held[index] = replace(entry, payload=json.dumps(document).encode())
            assert faults(bench.log)
            return
    raise AssertionError("no credit to tamper with")
