"""The judges of a chaos run, in memory: clean logs are clean, and each kind of fault is found."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.broker_log import SeenLog
from tests.chaos.oracle import judge
from tests.chaos.plan import Plan, plan_of
from tests.chaos.rehearsal import rehearse
from tests.chaos.roles import specs, written_topics
from tests.chaos.run import audit_faults, twin_faults
from tests.chaos.twin import barrier_faults, differences
from walras.audit import report
from walras_billing.usage_faults import Fault, time_fault
from walras_contracts.charges import ChargeCredited, ChargeRated, UsageQuarantined
from walras_contracts.invoices import InvoicePublished, InvoiceRefused
from walras_contracts.ledger import LedgerEntryPosted
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.memory.runner import state_digest_input

SEED = 13
EVENTS = 400
DISTURBANCES = 20


def some_plan(seed: int) -> Plan:
    return plan_of(seed, EVENTS, DISTURBANCES)


def test_use_is_forgotten_in_the_run_and_comes_again(rehearsed: SeenLog) -> None:
    state = state_digest_input(rehearsed.log, "billing")
    kept = {key.partition("line/")[2] for key in state}
    used = [
        entry.key
        for partition in rehearsed.log.partitions("usage")
        for entry in rehearsed.log.read("usage", partition, 0)
        if entry.barrier is None
    ]
    forgotten = [key for key, times in Counter(used).items() if key not in kept and times > 1]
    assert forgotten


@settings(max_examples=6)
@given(st.integers(0, 2**31))
def test_a_log_that_nothing_happened_to_is_clean(seed: int) -> None:
    seen = rehearse(some_plan(seed), specs())
    verdict = judge(seen.log)
    assert verdict.faults() == []
    assert audit_faults(seen) == []
    assert verdict.records == EVENTS
    assert verdict.lines > EVENTS // 2


@pytest.fixture(scope="module")
def rehearsed() -> SeenLog:
    """What the stages write to a plan; its entries are for reading."""
    return rehearse(some_plan(SEED), specs())


@pytest.fixture
def seen(rehearsed: SeenLog) -> SeenLog:
    """A copy of the log to tamper with."""
    log = rehearsed.log
    return SeenLog(MemoryLog(log.topics, {where: [*held] for where, held in log.entries.items()}))


def first(seen: SeenLog, topic: str, kind: str, wanted: Callable[[dict[str, Any]], bool]) -> Any:
    """The partition and place of the first record of a kind that is wanted."""
    for partition in seen.log.partitions(topic):
        for place, entry in enumerate(seen.log.read(topic, partition, 0)):
            if entry.type == kind and wanted(json.loads(entry.payload or b"")):
                return partition, place
    raise AssertionError(f"the log has no {kind} to tamper with")


def tampered(
    seen: SeenLog, fault: str, kind: str, wanted: Callable[[dict[str, Any]], bool]
) -> None:
    """Lose, double or change the first charge line that is wanted."""
    partition, place = first(seen, "charges", kind, wanted)
    held = seen.log.entries["charges", partition]
    entry = held[place]
    body = json.loads(entry.payload or b"")
    if fault == "lost":
        del held[place]
    elif fault == "doubled":
        held.insert(place, entry)
    else:
        changed = {
            "amount": {"amount_numerator": str(int(body["amount_numerator"]) + 1)},
            "price": {"price_micro": (body.get("price_micro") or 0) + 1},
            "end": {"end_ms": body["end_ms"] - 1},
            "team": {"team": "another"},
            "id": {"charge_id": "0" * 32},
        }[fault]
        held[place] = replace(entry, payload=json.dumps(body | changed).encode())


@pytest.mark.parametrize("fault", ["lost", "doubled", "amount", "price", "end", "team", "id"])
@pytest.mark.parametrize("what", ["charge", "correction"])
def test_the_oracle_sees_a_line_that_was_tampered_with(
    fault: str, what: str, seen: SeenLog
) -> None:
    corrects = what == "correction"
    tampered(
        seen,
        fault,
        ChargeRated.TYPE,
        lambda body: (body["corrects"] is not None) == corrects and body["price_micro"] != 0,
    )
    verdict = judge(seen.log)
    counts = (len(verdict.lost), len(verdict.doubled), len(verdict.wrong))
    wanted = {"lost": (1, 0, 0), "doubled": (0, 1, 0), "id": (1, 0, 1)}
    assert counts == wanted.get(fault, (0, 0, 1))


@pytest.mark.parametrize("fault", ["lost", "doubled", "amount"])
def test_the_oracle_sees_a_credit_that_was_tampered_with(fault: str, seen: SeenLog) -> None:
    tampered(seen, fault, ChargeCredited.TYPE, lambda body: body["amount_numerator"] != "0")
    assert len(judge(seen.log).wrong) == 1


def test_the_oracle_sees_two_lines_of_one_id_that_differ(seen: SeenLog) -> None:
    partition, place = first(seen, "charges", ChargeRated.TYPE, lambda _: True)
    entry = seen.log.entries["charges", partition][place]
    tampered(seen, "amount", ChargeRated.TYPE, lambda _: True)
    seen.log.entries["charges", partition].insert(place, entry)
    verdict = judge(seen.log)
    assert (len(verdict.lost), len(verdict.doubled), len(verdict.wrong)) == (0, 1, 1)


def test_the_oracle_sees_good_use_that_was_quarantined(seen: SeenLog) -> None:
    for code, start_ms in (("overlap", 7), ("malformed", None)):
        body = {"code": code, "record": "l/n/1/0", "start_ms": start_ms}
        entry = Entry(0, "key", UsageQuarantined.TYPE, json.dumps(body).encode())
        seen.log.entries["usage.quarantined", 0].insert(0, entry)
    assert len(judge(seen.log).wrong) == 2


@pytest.mark.parametrize("fault", ["lost", "doubled"])
def test_the_oracle_sees_late_use_that_is_not_rejected_once_each_time(
    fault: str, seen: SeenLog
) -> None:
    topic, kind = UsageQuarantined.TOPIC, UsageQuarantined.TYPE
    partition, place = first(seen, topic, kind, lambda body: body["code"] == "rejected_late")
    held = seen.log.entries[topic, partition]
    held[place : place + 1] = [] if fault == "lost" else [held[place]] * 2
    (found,) = judge(seen.log).faults()
    assert "was rejected as late" in found


def test_the_oracle_sees_an_instant_that_two_charges_are_for(seen: SeenLog) -> None:
    """Another attempt of the lease claims it, under ids of its own: no line is there twice."""
    partition, place = first(seen, "charges", ChargeRated.TYPE, lambda b: b["corrects"] is None)
    held = seen.log.entries["charges", partition]
    body = json.loads(held[place].payload or b"")
    other = body | {"attempt": body["attempt"] + 1, "charge_id": "0" * 32}
    held.insert(place, replace(held[place], key="0" * 32, payload=json.dumps(other).encode()))
    verdict = judge(seen.log)
    assert (len(verdict.lost), len(verdict.doubled), len(verdict.wrong)) == (0, 1, 1)
    assert verdict.doubled[0].endswith("is charged twice")


def test_a_build_that_takes_what_ends_within_the_look_back_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends_within(
        span_ms: tuple[int, int], now_ms: int, earliest_ms: int, future_tolerance_ms: int
    ) -> Fault | None:
        span_ms = (max(span_ms[0], earliest_ms), span_ms[1])
        return time_fault(span_ms, now_ms, earliest_ms, future_tolerance_ms)

    monkeypatch.setattr("walras_billing.core.time_fault", ends_within)
    monkeypatch.setattr("walras_billing.usage_reading.Followers.read", lambda *_: None)
    verdict = judge(rehearse(some_plan(SEED), specs()).log)
    assert any(fault.endswith("is charged twice") for fault in verdict.doubled)
    assert verdict.lost == ()


@pytest.mark.parametrize("fault", ["lost", "doubled"])
@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("charges", ChargeRated.TYPE),
        ("charges", ChargeCredited.TYPE),
        ("ledger", LedgerEntryPosted.TYPE),
        ("invoices", InvoicePublished.TYPE),
    ],
)
def test_the_audit_sees_a_record_that_is_lost_or_doubled(
    topic: str, kind: str, fault: str, seen: SeenLog
) -> None:
    partition, place = first(seen, topic, kind, lambda _: True)
    held = seen.log.entries[topic, partition]
    if fault == "lost":
        del held[place]
    else:
        held.insert(place, held[place])
    assert audit_faults(seen)


def test_the_audit_sees_a_charge_of_another_amount(seen: SeenLog) -> None:
    tampered(seen, "amount", ChargeRated.TYPE, lambda body: body["price_micro"] != 0)
    assert audit_faults(seen)


def test_faults_that_the_audit_only_counts_are_faults_too(
    seen: SeenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "DIFFERENCES_KEPT", 3)
    for partition in seen.log.partitions("charges"):
        held = seen.log.entries["charges", partition]
        held[:] = [entry for entry in held if entry.type != ChargeRated.TYPE]
    found = audit_faults(seen)
    assert len(found) > EVENTS // 2
    assert any(fault.endswith("one more") for fault in found)


def test_invoices_are_refused_held_and_voided_and_time_without_prices_is_free(
    seen: SeenLog,
) -> None:
    first(seen, "invoices", InvoiceRefused.TYPE, lambda _: True)
    first(seen, "invoices", InvoicePublished.TYPE, lambda body: body["held"])
    first(seen, "invoices", InvoicePublished.TYPE, lambda body: body["state"] == "voided")
    first(
        seen,
        "charges",
        ChargeRated.TYPE,
        lambda body: (
            body["work_class"] == "market" and body["billable"] and not body["price_micro"]
        ),
    )


def test_the_twin_differs_from_a_log_in_another_order(seen: SeenLog, rehearsed: SeenLog) -> None:
    held = seen.log.entries["ledger", 0]
    held[0], held[1] = held[1], held[0]
    assert len(differences(seen, rehearsed.log, ["ledger"])) == 1


def test_the_twin_differs_from_a_log_that_lacks_any_one_record(
    rehearsed: SeenLog, seen: SeenLog
) -> None:
    topics = written_topics(specs())
    assert twin_faults(seen, some_plan(SEED).all_steps - 1) == []
    for topic in topics:
        partition = next(p for p in seen.log.partitions(topic) if seen.log.read(topic, p, 0))
        lost = seen.log.entries[topic, partition].pop()
        found = differences(seen, rehearsed.log, topics)
        assert [fault.partition(": ")[0] for fault in found] == [f"{topic}/{partition}"]
        seen.log.entries[topic, partition].append(lost)


def barriers(seen: SeenLog) -> list[Entry]:
    return seen.log.entries["balances", 0]


@pytest.mark.parametrize("fault", ["missing", "doubled", "older owner"])
def test_the_look_at_barriers_sees_each_of_their_faults(fault: str, seen: SeenLog) -> None:
    last = some_plan(SEED).all_steps - 1
    assert barrier_faults(seen, ["balances"], last) == []
    held = barriers(seen)
    place = next(i for i, entry in enumerate(held) if entry.barrier is not None)
    if fault == "missing":
        del held[place]
    elif fault == "doubled":
        held.insert(place, held[place])
    else:
        seen.epochs["balances", 0] = [1, 2, 1]
    assert len(barrier_faults(seen, ["balances"], last)) == 1
