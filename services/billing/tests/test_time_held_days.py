"""Random days of measured use: an independent audit agrees with all that is said of time held."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests import held_audit
from services.billing.tests.billing_bench import MINUTE_MS, TEAMS, Bench, pool, price, usage
from services.billing.tests.day_properties import (
    expect_no_crash_to_show,
    expect_no_order_to_show,
    expect_the_same_from_a_replay,
)
from walras_billing.time_held import TimeHeld
from walras_contracts.charges import ChargeReason
from walras_contracts.usage_settled import UsageSettled
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

PROPERTY = settings(deadline=None, max_examples=10, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
MINUTES = 40
SILENT_MINUTES = 20
"""Without new use at the end; late copies come in them."""
SHORT: dict[str, Any] = {"look_back_ms": 900_000, "price_wait_ms": 900_000}
"""So that use is forgotten, and given up, within a day of a test."""


def a_day(seed: int, bench: Bench, *, shuffle: bool = False) -> None:
    """Forty minutes of measured use: late, again, overlapping, in attempts, without a price."""
    draw, order = random.Random(seed), random.Random(seed + 1)
    arriving: dict[int, list[Output]] = {
        0: [pool(dict.fromkeys(TEAMS, 1)), pool({"x": 1}, name="q")]
    }
    numbers: dict[tuple[str, int], int] = {}
    attempts = dict.fromkeys(("l1", "l2", "l3", "l4"), 1)
    priced_from = draw.choice((0, 0, 9))
    for minute in range(MINUTES):
        if minute >= priced_from and draw.random() < 0.6:
            lag = draw.choice((0, 0, 0, 4))
            arriving.setdefault(minute + lag, []).append(price(minute, draw.choice((None, 0, 7))))
        for lease in attempts:
            if draw.random() < 0.1:
                attempts[lease] += 1
            source = (lease, attempts[lease])
            number = numbers[source] = numbers.get(source, -1) + draw.choice((1, 1, 1, 1, 2))
            minutes = draw.choice((1, 1, 1, 2))
            record = usage(
                max(0, minute - draw.choice((0, 0, 0, 1))),
                seq=number,
                lease=lease,
                team=f"t{1 + int(lease[1]) % 3}",
                job=f"j{int(lease[1]) // 2}",
                pool=draw.choice("pppq"),
                macc=draw.randrange(1, 10**6),
                minutes=minutes,
                attempt=attempts[lease],
                billable=draw.random() < 0.9,
                **_figures(draw, minutes * MINUTE_MS),
            )
            late = draw.choice((0, 0, 0, 0, 2, 6, 12))
            for _ in range(draw.choice((1, 1, 2))):
                arriving.setdefault(minute + minutes + late, []).append(record)
            if draw.random() < 0.2:
                other = dict.fromkeys(("running_ms", "busy_ms"), draw.choice((None, 1)))
                again = json.loads(record.payload or b"") | other
                later = minute + minutes + late + draw.choice((1, 3, 9))
                payload = json.dumps(again).encode()
                arriving.setdefault(later, []).append(replace(record, payload=payload))
    for minute in range(MINUTES + SILENT_MINUTES):
        given = arriving.get(minute, [])
        if shuffle:
            order.shuffle(given)
        bench.step(minute, *given)


def _figures(draw: random.Random, length_ms: int) -> dict[str, Any]:
    running_ms = draw.choice((None, length_ms, draw.randrange(length_ms), length_ms + 1))
    busy_ms = draw.choice((None, 0, draw.randrange(length_ms), draw.randrange(length_ms)))
    return {"running_ms": running_ms, "busy_ms": busy_ms}


@PROPERTY
@given(seed=SEED, is_short=st.booleans())
def test_an_independent_audit_agrees_with_every_settlement(seed: int, is_short: bool) -> None:
    bench = Bench(**(SHORT if is_short else {}))
    a_day(seed, bench)

    assert held_audit.faults(bench.log) == []


@PROPERTY
@given(seed=SEED)
def test_what_is_held_is_what_is_charged_free_or_waiting_job_by_job(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)

    told: dict[tuple[str, str, str], int] = {}
    for record in bench.settled_use():
        assert record.boundary_ms <= record.settled_ms
        key = (record.team, record.pool, record.job)
        told[key] = told.get(key, 0) + int(record.held_macc_ms)
    held = dict.fromkeys(told, 0)
    sign = {ChargeReason.USAGE: 1, ChargeReason.OVERLAP: -1, ChargeReason.LATE_PRICE: 0}
    charged: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for line in bench.charges():
        macc_ms = line.quantity_macc * (line.end_ms - line.start_ms)
        held[line.team, line.pool, line.job] += sign[line.reason] * macc_ms
        if line.reason is ChargeReason.USAGE:
            record_key = (line.lease, line.node, line.attempt, line.seq)
            charged.setdefault(record_key, []).append((line.start_ms, line.end_ms))
    for payload in bench.pending().values():
        part = json.loads(payload)
        record_key = (part["lease"], part["node"], part["attempt"], part["seq"])
        # A charge whose price is no longer known waits again, and was counted already.
        if not any(a <= part["start_ms"] < b for a, b in charged.get(record_key, [])):
            macc_ms = part["quantity_macc"] * (part["end_ms"] - part["start_ms"])
            held[part["team"], part["pool"], part["job"]] += macc_ms

    assert told == held


@PROPERTY
@given(seed=SEED)
def test_a_crash_before_every_step_leaves_the_same_bytes_on_every_topic(seed: int) -> None:
    expect_no_crash_to_show(a_day, seed)


@PROPERTY
@given(seed=SEED)
def test_the_order_inside_a_step_changes_no_record_and_no_state(seed: int) -> None:
    expect_no_order_to_show(a_day, seed)
    straight, shuffled = Bench(), Bench()
    a_day(seed, straight)
    a_day(seed, shuffled, shuffle=True)

    assert shuffled.settled_use() == straight.settled_use()


@PROPERTY
@given(seed=SEED)
def test_replaying_the_inputs_into_an_empty_state_gives_the_same_records(seed: int) -> None:
    expect_the_same_from_a_replay(a_day, seed, **SHORT)


@PROPERTY
@given(seed=SEED)
def test_nothing_is_kept_once_all_is_published(seed: int) -> None:
    bench = Bench()
    a_day(seed, bench)
    for minute in range(MINUTES + SILENT_MINUTES, MINUTES + SILENT_MINUTES + 7):
        bench.step(minute)

    state = state_digest_input(bench.log, "billing")
    assert not [key for key in state if key.split("/")[1] == "held"]
    assert not any(stage.state.time_held.sums for stage in bench.stages())


def test_the_days_contain_all_that_they_are_meant_to_contain() -> None:
    seen: set[str] = set()
    for seed in range(8):
        bench = Bench(**SHORT)
        a_day(seed, bench)
        seen |= {line.code for line in bench.quarantined()}
        for record in bench.settled_use():
            for name in held_audit.KINDS:
                amount = int(getattr(record, f"{name}_macc_ms"))
                seen |= {f"{name} {'less' if amount < 0 else 'more'}"} if amount else set()
            seen |= {"late"} if record.settled_ms > record.boundary_ms else set()
            seen |= {"figures alone"} if record.held_macc_ms == "0" else set()
    kinds = {f"{kind} {way}" for kind in held_audit.KINDS for way in ("less", "more")}
    assert seen >= kinds | {"late", "overlap", "never_priced"}


def _forgetful(self: TimeHeld, line: Any, lost_ms: int) -> None:
    """Subtract what is lost, and leave the figures of the record as they are."""
    terms = line.terms
    self.at(line.end_ms).add(terms.holder, -terms.quantity_macc, lost_ms, None)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("lose", _forgetful),
        ("lose", lambda *_: None),
        ("is_published", lambda *_: False),
        ("is_published", lambda *_: True),
    ],
)
def test_a_build_that_loses_its_way_is_caught(
    name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: by the audit, or since a crash shows."""
    monkeypatch.setattr(TimeHeld, name, broken)
    caught = 0
    for seed in range(4):
        bench, crashed = Bench(), Bench(crash=True)
        a_day(seed, bench)
        a_day(seed, crashed)
        caught += bool(held_audit.faults(bench.log) or bench.log.entries != crashed.log.entries)
    assert caught


def test_the_audit_refuses_a_record_that_was_tampered_with() -> None:
    bench = Bench()
    a_day(3, bench)
    held = next(
        entries
        for (topic, _), entries in bench.log.entries.items()
        if topic == UsageSettled.TOPIC and any(entry.payload for entry in entries)
    )
    index = next(i for i, entry in enumerate(held) if entry.barrier is None)
    document = json.loads(held[index].payload or b"")
    for name in ("held_macc_ms", "unmeasured_macc_ms"):
        document[name] = str(int(document[name]) + 1)
    held[index] = replace(held[index], payload=json.dumps(document).encode())

    assert len(held_audit.faults(bench.log)) >= 1
