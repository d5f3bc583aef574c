"""A log that the services wrote is clean, and each instant of use on it is accounted for."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cli.tests.audit_days import (
    MINUTE_MS,
    START_MS,
    Hours,
    MoneyWorld,
    changed,
    drain,
    pool,
    price,
    usage,
    written,
)
from tests.tidy.tree import imported_modules, is_below, parsed, repository, select
from walras.audit import AuditError, AuditReport, AuditRules, MemoryAuditLog, audit
from walras.audit.rows import RATE_DENOMINATOR
from walras.audit.usage_form import said_by
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceRequested
from walras_contracts.money import StopReason
from walras_contracts.work import DrainState
from walras_runtime.memory.log import MemoryLog
from walras_runtime.records import emit

PROPERTY = settings(deadline=None, max_examples=6, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"look_back_ms": 1_200_000, "price_wait_ms": 2_400_000},
    {"look_back_ms": 3_600_000, "price_wait_ms": 3_600_000, "max_price_age_ms": 300_000},
]


def shown(report: AuditReport) -> str:
    return "\n".join(str(difference) for difference in report.differences[:20])


def audited(log: MemoryLog, **changes: Any) -> AuditReport:
    report = audit(log, AuditRules(**changes))
    assert report.is_clean, shown(report)
    return report


@PROPERTY
@given(seed=SEED, setting=st.sampled_from(SETTINGS))
def test_whatever_happens_a_log_that_the_services_wrote_is_clean(
    seed: int, setting: dict[str, Any]
) -> None:
    log = Hours(seed, minutes=120).run(MoneyWorld(**setting)).log

    report = audited(log, **setting)
    used = sum(said_by_record(log))
    parts = Counter(report.macc_ms)
    parts["quarantined"] = sum(report.quarantined_macc_ms.values())
    # What was taken from a record in part stands in quarantine, too.
    parts["quarantined"] -= sum(report.quarantined_macc_ms[c] for c in ("overlap", "never_priced"))
    assert sum(parts.values()) == used


def said_by_record(log: MemoryLog) -> list[int]:
    """Use that each record on the log names, as far as it names any."""
    view = MemoryAuditLog(log)
    entries = [entry for p in view.partitions("usage") for entry in view.entries("usage", p)]
    return [said_by(entry).macc_ms or 0 for entry in entries if entry.barrier is None]


def test_the_hours_contain_all_that_they_are_meant_to_contain() -> None:
    seen: Counter[str] = Counter()
    for seed, setting in ((1, SETTINGS[1]), (2, SETTINGS[2])):
        world = Hours(seed).run(MoneyWorld(**setting))
        report = audited(world.log, **setting)
        seen.update(report.counts)
        seen.update(report.quarantined)
        seen.update(report.macc_ms)
        for _, _, entry in written(world.log, "budgets"):
            seen.update([f"stop: {json.loads(entry.payload or b'')['reason']}"])
        for invoice in world.invoices():
            seen.update([invoice.state.value])
            seen.update(line.kind.value for line in invoice.lines)
    meant = {"charges", "credits", "pending", "repeated", "gaps", "entries", "balances", "invoices"}
    meant |= {"overlap", "never_priced", "rejected_late", "other_body", "clock_jump", "malformed"}
    meant |= {"unknown_team", "unknown_market", "future_time", "reversed_interval"}
    meant |= {"charged", "unbilled", "opportunistic", "draft", "issued", "voided"}
    meant |= {"usage", "correction", "credit", "budgets", "alerts", "out_of_range"}
    meant |= {"unknown_pool", "wrong_partition", *(f"stop: {reason}" for reason in StopReason)}
    assert meant - seen.keys() == set()


def test_of_attempts_that_come_late_in_one_step_the_lower_is_looked_at_first() -> None:
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    late = [usage("l1", 0, 0, MINUTE_MS, attempt=attempt) for attempt in (10, 2)]
    for minute, records in ((3, []), (9, late), (10, [])):
        world.step(minute, *records)

    report = audited(world.log)
    assert (report.counts["charges"], report.quarantined) == (1, {"overlap": 1})


def a_lease(world: MoneyWorld, minutes: int) -> None:
    """One accelerator at 3.6 credits an hour, minute by minute: 0.06 credits a minute."""
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    for minute in range(minutes):
        start_ms = minute * MINUTE_MS
        record = usage("l1", minute, start_ms, start_ms + MINUTE_MS, quantity_macc=1000)
        world.step(minute + 1, record)


def test_money_is_told_by_team_with_what_is_in_flight() -> None:
    world = MoneyWorld()
    a_lease(world, 13)

    report = audited(world.log)
    money = report.money["t1", "p"]
    # A minute is rated a minute after its end; boundary 10 was settled at minute 11, then came 2.
    assert money.rated == 12 * 60_000 * RATE_DENOMINATOR
    assert money.posted == 10 * 60_000 * RATE_DENOMINATOR
    assert report.in_flight()["ledger"] == 2 * 60_000 * RATE_DENOMINATOR
    assert report.boundary_ms == START_MS + 10 * MINUTE_MS
    assert report.macc_ms["not_due"] == 1000 * MINUTE_MS


def test_once_an_invoice_is_issued_it_and_the_ledger_hold_all_charges() -> None:
    world = MoneyWorld()
    a_lease(world, 30)
    for minute in range(31, 75):
        world.step(minute)

    report = audited(world.log)
    money = report.money["t1", "p"]
    assert money.owed == money.posted == money.invoiced == 30 * 60_000 * RATE_DENOMINATOR
    assert money.payable_micro == 1_800_000
    assert report.in_flight() == {"ledger": 0, "invoices": 0}


def test_a_failed_drain_is_given_back_and_the_ledger_says_so() -> None:
    world = MoneyWorld()
    a_lease(world, 5)
    world.step(6, drain("l1", 2 * MINUTE_MS, 4 * MINUTE_MS, DrainState.FAILED, "s"))
    for minute in range(7, 13):
        world.step(minute)

    money = audited(world.log).money["t1", "p"]
    assert (money.rated, money.credited) == (
        5 * 60_000 * RATE_DENOMINATOR,
        -2 * 60_000 * RATE_DENOMINATOR,
    )
    assert money.posted == money.owed


def test_a_log_without_invoices_is_audited_without_them_and_it_is_said() -> None:
    world = MoneyWorld(invoicing=False)
    a_lease(world, 8)

    assert audited(world.log).invoice_barrier is None


def test_an_invoice_that_was_voided_is_made_up_for_by_the_next() -> None:
    world = MoneyWorld()
    a_lease(world, 30)
    for minute in range(31, 80):
        world.step(minute)
    issued = [each for each in world.invoices() if each.state == "issued" and each.team]
    request = InvoiceRequested(
        invoice_id=issued[0].invoice_id, action=InvoiceAction.VOID, reason="wrong address"
    )
    world.step(81, emit(request))
    world.step(121)

    states = {each.state.value: each for each in world.invoices() if each.team == "t1"}
    assert states.keys() == {"voided", "draft"}
    assert states["draft"].payable_micro == 1_800_000
    assert audited(world.log).money["t1", "p"].payable_micro == 1_800_000


def test_what_lies_behind_the_last_barrier_of_all_topics_is_in_flight() -> None:
    world = MoneyWorld()
    a_lease(world, 10)
    # The last step has been written to none of what billing writes.
    for (topic, partition), held in world.log.entries.items():
        if topic in {"charges", "ledger", "balances", "charges.pending", "usage.quarantined"}:
            marks = [place for place, entry in enumerate(held) if entry.barrier is not None]
            world.log.entries[topic, partition] = held[: marks[-2] + 1]

    report = audited(world.log)
    assert report.barrier == world.number - 1
    assert report.invoice_barrier == world.number - 1


def test_a_log_that_is_not_whole_is_no_log_to_audit() -> None:
    world = MoneyWorld()
    a_lease(world, 3)
    with pytest.raises(AuditError, match="prices/0@3: barrier 2 follows 0"):
        audit(without_barrier(world.log, "prices", 1))
    with pytest.raises(AuditError, match="ledger/0 has no barrier"):
        audit(
            MemoryLog(
                world.log.topics,
                {("usage", 0): world.log.read("usage", 0, 0)}
                | {
                    (topic, partition): list(held)
                    for (topic, partition), held in world.log.entries.items()
                    if topic != "ledger"
                },
            )
        )
    with pytest.raises(AuditError, match="no topic usage"):
        audit(MemoryLog({}))


def without_barrier(log: MemoryLog, topic: str, number: int) -> MemoryLog:
    """A copy without one barrier."""
    entries = {place: list(held) for place, held in log.entries.items()}
    for place, held in entries.items():
        if place[0] == topic:
            held[:] = [e for e in held if e.barrier is None or e.barrier.number != number]
    return MemoryLog(log.topics, entries)


def test_the_outcome_does_not_depend_on_the_partitions_read_before() -> None:
    log = Hours(7, minutes=60).run(MoneyWorld()).log
    assert audit(log).document() == audit(log).document()
    assert InvoicePublished.TYPE in {entry.type for _, _, entry in written(log, "invoices")}


def test_the_audit_knows_the_contracts_and_the_runtime_and_nothing_of_what_it_audits() -> None:
    known = {"walras_contracts", "walras_runtime", "walras.audit"}
    modules = select(repository(), r"cli/src/walras/audit/.*\.py$")
    assert modules
    for path, text in modules.items():
        for _, name in imported_modules(parsed(text)):
            if name.startswith("walras"):
                assert is_below(name, known), f"{path} imports {name}"
