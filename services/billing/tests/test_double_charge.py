"""No instant of a lease on a node is charged twice, whatever is sent and whatever is forgotten."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, pool, price, usage
from services.billing.tests.charge_audit import charged_twice, faults
from walras_billing.usage_faults import Fault, UsageFault, time_fault
from walras_contracts.identifiers import partition_of
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=25, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
LOOK_BACK_MS = 600_000
UNIT = 10**6 * 60_000 * MINUTE_MS
"""Numerator of a minute of 60 accelerators at a price of 1."""
MINUTES = 32
SILENT_MINUTES = 24
"""Without new use at the end; late copies come in them."""


def amounts(bench: Bench) -> list[int]:
    return [int(line.amount_numerator) // UNIT for line in bench.charges()]


def codes(bench: Bench) -> list[str]:
    return [line.code for line in bench.quarantined()]


def test_use_that_begins_before_the_look_back_is_late_although_it_ends_within_it() -> None:
    bench = Bench(look_back_ms=LOOK_BACK_MS)
    bench.step(0, price(0, 7))
    bench.step(2, usage(0, minutes=2))
    bench.step(12)
    # The first record is forgotten; another attempt claims its second minute, and one more.
    bench.step(13, usage(1, minutes=3, attempt=2), usage(3, attempt=3))
    bench.step(14)

    assert codes(bench) == ["rejected_late"]
    assert amounts(bench) == [14, 7]
    assert faults(bench.log) == []


@pytest.mark.parametrize(("late_ms", "found"), [(0, []), (1, ["rejected_late"])])
def test_use_may_begin_where_the_look_back_does_and_no_ms_before(
    late_ms: int, found: list[str]
) -> None:
    bench = Bench(look_back_ms=LOOK_BACK_MS)
    bench.step(0, price(0, 7))
    late = usage(2)
    payload = (late.payload or b"").replace(
        str(START_MS + 2 * MINUTE_MS).encode(), str(START_MS + 2 * MINUTE_MS - late_ms).encode()
    )
    bench.step(12, replace(late, payload=payload))

    assert codes(bench) == found
    assert len(bench.charges()) == 1 - len(found)


def test_what_a_shorter_look_back_forgot_a_longer_one_does_not_charge_again() -> None:
    for crash in (False, True):
        bench = Bench(look_back_ms=LOOK_BACK_MS, crash=crash)
        bench.step(0, price(0, 7))
        bench.step(1, usage(0))
        bench.step(12)
        bench.restart(look_back_ms=86_400_000)
        bench.step(13, usage(0), usage(0, seq=1), usage(0, attempt=2), usage(2, seq=3))
        bench.step(14)

        assert codes(bench) == ["rejected_late"] * 3
        assert amounts(bench) == [7, 7]


def test_use_in_a_partition_that_is_not_its_teams_is_quarantined_there() -> None:
    bench = Bench()
    partitions = len(bench.log.partitions("usage"))
    own = partition_of("t1", partitions)
    other = (own + 1) % partitions
    bench.step(0, pool({"t1": 1}), price(0, 7))
    bench.step(1, usage(0), replace(usage(0), partition=other))
    bench.step(2, replace(usage(1, seq=1), partition=other))
    bench.step(6)

    assert amounts(bench) == [7]
    assert [(q.code, q.partition) for q in bench.quarantined()] == [
        ("wrong_partition", other),
        ("wrong_partition", other),
    ]
    assert len(bench.log.read("charges", other, 0)) == 4, "barriers alone"


def hostile_use(draw: random.Random, *, honest_starts: bool) -> Iterator[tuple[int, Output]]:
    """Yield use with the minute in which it comes: late, repeated, cut otherwise, overlapping.

    ``honest_starts``: what is told of one number always begins at the same time.
    """
    for lease, node, attempt in product(("l1", "l2"), ("n", "n2"), (1, 2, 3)):
        seq, at = draw.choice((0, 0, 1)), draw.randrange(12)
        while at < MINUTES:
            minutes = draw.choice((1, 1, 2, 3, 5, 9))
            # At times the same number is told of another time, too.
            told = [(at, minutes)]
            if draw.random() < 0.08:
                other = at if honest_starts else max(0, at + draw.randrange(-4, 4))
                told.append((other, draw.choice((1, 2, 4))))
            for start, length in told:
                record = usage(
                    start,
                    minutes=length,
                    seq=seq,
                    lease=lease,
                    node=node,
                    team=f"t{lease[1]}",
                    attempt=attempt,
                    macc=60_000 * attempt,
                )
                for _ in range(draw.choice((1, 1, 1, 2, 3))):
                    lag = draw.choice((0, 0, 0, 1, 4, 7, 8, 9, 10, 12, 20))
                    yield start + length + lag, _sent(draw, record)
            at += minutes + draw.choice((-4, -2, -1, 0, 0, 0, 0, 0, 0, 3))
            at = max(0, at - (12 if draw.random() < 0.04 else 0))
            seq += draw.choice((1, 1, 1, 1, 2))


def _sent(draw: random.Random, record: Output) -> Output:
    """Return a record, once in a while for another partition than its own."""
    return replace(record, partition=draw.randrange(4)) if draw.random() < 0.05 else record


def hostile_day(
    seed: int, bench: Bench, *, changes_look_back: bool, honest_starts: bool = False
) -> None:
    """An hour of hostile use, under prices that come late or not at all."""
    draw = random.Random(seed)
    arriving: dict[int, list[Output]] = {0: [pool({"t1": 2, "t2": 5}), price(0, 7)]}
    for minute in range(1, MINUTES):
        if draw.random() < 0.3:
            comes = minute + draw.choice((0, 0, 1, 6))
            arriving.setdefault(comes, []).append(price(minute, draw.choice((None, 0, 7, 11))))
    for comes, record in hostile_use(draw, honest_starts=honest_starts):
        arriving.setdefault(comes, []).append(record)
    for minute in range(MINUTES + SILENT_MINUTES):
        if changes_look_back and draw.random() < 0.1:
            bench.restart(look_back_ms=draw.choice((1, 1, 2, 6)) * LOOK_BACK_MS)
        given = arriving.get(minute, [])
        draw.shuffle(given)
        bench.step(minute, *given)


@PROPERTY
@given(seed=SEED, crash=st.booleans(), changes_look_back=st.booleans())
def test_no_instant_of_a_lease_on_a_node_is_charged_twice_whatever_is_sent(
    seed: int, crash: bool, changes_look_back: bool
) -> None:
    bench = Bench(look_back_ms=LOOK_BACK_MS, crash=crash)
    hostile_day(seed, bench, changes_look_back=changes_look_back)

    assert charged_twice(bench.log) == []


@PROPERTY
@given(seed=SEED, changes_look_back=st.booleans())
def test_an_independent_audit_agrees_with_what_hostile_use_is_charged(
    seed: int, changes_look_back: bool
) -> None:
    """A number that is forgotten may be told of another, later time; the audit knows one."""
    bench = Bench(look_back_ms=LOOK_BACK_MS)
    hostile_day(seed, bench, changes_look_back=changes_look_back, honest_starts=True)

    assert faults(bench.log) == []


def test_the_hostile_days_have_all_that_they_are_to_have() -> None:
    seen: Counter[str] = Counter()
    for seed in range(6):
        bench = Bench(look_back_ms=LOOK_BACK_MS)
        hostile_day(seed, bench, changes_look_back=seed % 2 > 0)
        seen.update(codes(bench))
        seen.update(line.reason.value for line in bench.charges())
        seen.update(gap.ended.value for gap in bench.gaps())
        charged = {f"{c.lease}/{c.node}/{c.attempt}/{c.seq}" for c in bench.charges()}
        state = state_digest_input(bench.log, "billing")
        seen["forgotten"] += len(charged - {key.partition("line/")[2] for key in state})
    wanted = {"rejected_late", "overlap", "other_body", "wrong_partition", "clock_jump"}
    wanted |= {"usage", "late_price", "never", "filled", "forgotten"}
    assert min(seen[name] for name in wanted) > 3, seen


def _ends_within(
    span_ms: tuple[int, int], now_ms: int, earliest_ms: int, future_tolerance_ms: int
) -> Fault | None:
    """The broken rule: what ends within the look-back is in time, wherever it begins."""
    fault = time_fault(span_ms, now_ms, earliest_ms, future_tolerance_ms)
    late = fault is not None and fault.code is UsageFault.REJECTED_LATE
    return None if late and span_ms[1] > earliest_ms else fault


def test_a_build_that_takes_what_ends_within_the_look_back_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walras_billing.core.time_fault", _ends_within)
    twice = 0
    for seed in range(4):
        bench = Bench(look_back_ms=LOOK_BACK_MS)
        hostile_day(seed, bench, changes_look_back=False)
        twice += bool(charged_twice(bench.log))
    assert twice > 1


def test_a_build_that_forgets_how_far_it_forgot_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def looks_back(work: Any) -> int:
        earliest_ms: int = work.now_ms - work.rules.look_back_ms
        return earliest_ms

    monkeypatch.setattr("walras_billing.core.Work.earliest_ms", property(looks_back))
    twice = 0
    for seed in range(4):
        bench = Bench(look_back_ms=LOOK_BACK_MS)
        hostile_day(seed, bench, changes_look_back=True)
        twice += bool(charged_twice(bench.log))
    assert twice
