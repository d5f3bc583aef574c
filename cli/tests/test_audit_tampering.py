"""Whatever is done to a clean log is found, and named: each kind of tampering is a canary."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cli.tests.audit_days import Hours, MoneyWorld
from cli.tests.audit_tampering import (
    Body,
    Tampering,
    Wanted,
    altered,
    copied,
    dear_line,
    delayed,
    doubled,
    dropped,
    exact_line,
    first,
    forged,
    found,
    garbled,
    in_another_partition,
    invoice_lost,
    last_revision,
    put,
    without_the_last_hour,
)
from cli.tests.test_audit_fields import MORE_TAMPERINGS
from walras.audit import AuditReport, AuditRules, audit
from walras.audit.report import CODES
from walras_contracts.charges import ChargeCredited, ChargePending, ChargeRated
from walras_contracts.charges import UsageGapReported as Gap
from walras_contracts.charges import UsageQuarantined as Quarantined
from walras_contracts.invoices import InvoicePublished
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.market import PricePublished
from walras_contracts.money import BalancePublished
from walras_contracts.work import DrainStatusChanged, UsageMetered
from walras_runtime.memory.log import Entry, MemoryLog

SEED = 1
RULES: dict[str, Any] = {"look_back_ms": 1_200_000, "price_wait_ms": 2_400_000}


@pytest.fixture(scope="module")
def clean() -> MemoryLog:
    """Return a log on which everything that is tampered with occurs."""
    return Hours(SEED, minutes=150).run(MoneyWorld(**RULES)).log


def audited(log: MemoryLog) -> AuditReport:
    return audit(log, AuditRules(**RULES))


def numerator(change: int) -> Callable[[Body], Body]:
    return lambda body: {"amount_numerator": str(int(body["amount_numerator"]) + change)}


def is_charge(body: Body) -> bool:
    return body["corrects"] is None and bool(body["price_micro"])


def longer(body: Body) -> Body:
    """The same charge over a longer time, at the amount that belongs to it."""
    start_ms, end_ms = body["start_ms"], body["end_ms"]
    amount = int(body["amount_numerator"]) // (end_ms - start_ms) * (end_ms + 1000 - start_ms)
    return {"end_ms": end_ms + 1000, "amount_numerator": str(amount)}


def higher_price(body: Body) -> Body:
    unit = body["tariff_ppm"] * body["quantity_macc"] * (body["end_ms"] - body["start_ms"])
    price = body["price_micro"] + 1
    return {"price_micro": price, "amount_numerator": str(price * unit)}


def split_again(log: MemoryLog) -> None:
    """Charge the half of a time a second time."""
    held, place, body = first(log, ChargeRated, is_charge)
    middle = (body["start_ms"] + body["end_ms"]) // 2
    held.insert(place, replace(held[place], key="0" * 32))
    put(held, place, body, charge_id="0" * 32, start_ms=middle)


def more_to_the_wallet(amount: int, *, balance: bool) -> Callable[[Body], Body]:
    """Give a wallet more, at the cost of the other account where the entry is to balance."""

    def change(body: Body) -> Body:
        lines = [dict(line) for line in body["lines"]]
        wallet = next(line for line in lines if line["account"].startswith("wallet/"))
        other = next(line for line in lines if not line["account"].startswith("wallet/"))
        wallet["amount_micro"] += amount
        if balance:
            other["amount_micro"] -= amount
        return {"lines": lines}

    return change


def of_kind(kind: str) -> Wanted:
    return lambda body: (
        body["kind"] == kind and any("wallet" in x["account"] for x in body["lines"])
    )


def every_income_a_tenth_more(log: MemoryLog) -> None:
    for held, place, body in [*found(log, LedgerEntryPosted, of_kind("income"))]:
        wallet = next(x for x in body["lines"] if x["account"].startswith("wallet/"))
        more = wallet["amount_micro"] // 10
        put(held, place, body, **more_to_the_wallet(more, balance=True)(body))


def last_balance_lost(log: MemoryLog) -> None:
    for partition in log.partitions("balances"):
        held = log.entries["balances", partition]
        last = [at for at, entry in enumerate(held) if entry.type == BalancePublished.TYPE]
        if last:
            del held[last[-1]]
            return
    raise AssertionError("no balance to lose")


def drain_lost(log: MemoryLog) -> None:
    """Take away a failure for which something was given back."""
    _, _, credit = first(log, ChargeCredited, lambda body: body["session"])
    dropped(
        DrainStatusChanged,
        lambda body: (body["session"], body["state"]) == (credit["session"], "failed"),
    )(log)


def use_lost(log: MemoryLog) -> None:
    """Take away a usage record that was charged."""
    _, _, charge = first(log, ChargeRated, is_charge)
    key = f"{charge['lease']}/{charge['node']}/{charge['attempt']}/{charge['seq']}"
    for partition in log.partitions("usage"):
        held = log.entries["usage", partition]
        held[:] = [entry for entry in held if entry.key != key]


def is_whole(body: Body) -> bool:
    return body["start_ms"] is None and bool(body["macc_ms"])


def is_part(body: Body) -> bool:
    return bool(body["code"] == "overlap")


def lost_while_it_waits(log: MemoryLog) -> None:
    """Say of use that has no price that it waits no longer."""
    waiting: dict[str, tuple[list[Entry], int]] = {}
    for partition in log.partitions(ChargePending.TOPIC):
        held = log.entries[ChargePending.TOPIC, partition]
        for place, entry in enumerate(held):
            if entry.barrier is None:
                waiting[entry.key] = held, place
    held, place = next(
        (held, place) for held, place in waiting.values() if held[place].payload is not None
    )
    held[place] = replace(held[place], payload=None)


TAMPERINGS: list[tuple[str, Tampering, str]] = [
    ("a charge line is lost", dropped(ChargeRated, is_charge), "charge_missing"),
    ("a charge line of nothing is lost", dropped(ChargeRated), "charge_missing"),
    ("a correction is lost", dropped(ChargeRated, lambda b: b["corrects"]), "charge_missing"),
    ("a charge line occurs twice", doubled(ChargeRated), "charge_twice"),
    ("an amount is off by 1", altered(ChargeRated, numerator(1)), "charge_differs"),
    ("an amount is off by 1 again", altered(ChargeRated, numerator(-1)), "record_sum"),
    ("a price is too high", altered(ChargeRated, higher_price, is_charge), "charge_differs"),
    ("a border has moved", altered(ChargeRated, longer, is_charge), "charge_differs"),
    (
        "a correction names another charge",
        altered(ChargeRated, lambda _: {"corrects": "0" * 32}, lambda b: b["corrects"]),
        "charge_differs",
    ),
    (
        "a charge is another team's",
        altered(ChargeRated, lambda b: {"pool": "q" if b["pool"] == "p" else "p"}),
        "charge_differs",
    ),
    ("a charge comes a step late", delayed(ChargeRated), "charge_moved"),
    ("a charge lies in another partition", in_another_partition, "charge_partition"),
    ("a time is charged twice", split_again, "second_twice"),
    (
        "a charge that nobody asked for",
        forged(ChargeRated, lambda _: {"charge_id": "f" * 32}, "charge_id"),
        "charge_unexpected",
    ),
    ("a charge line is garbled", garbled(ChargeRated), "unreadable"),
    ("a usage record is lost", use_lost, "charge_unexpected"),
    (
        "a usage record says more",
        altered(
            UsageMetered,
            lambda b: {"quantity_macc": b["quantity_macc"] + 1},
            lambda b: b.get("quantity_macc") == 8000 and b["node"] == "n1",
        ),
        "charge_differs",
    ),
    (
        "a price record says more",
        altered(
            PricePublished,
            lambda b: {"pools": [p | {"price_micro": 2_999_999} for p in b["pools"]]},
        ),
        "charge_differs",
    ),
    ("use waits no longer, and is not charged", lost_while_it_waits, "pending_differs"),
    ("use is nowhere", lost_while_it_waits, "second_lost"),
    ("a credit is lost", dropped(ChargeCredited), "credit_missing"),
    ("a credit is off by 1", altered(ChargeCredited, numerator(-1)), "credit_differs"),
    ("a credit is too large", altered(ChargeCredited, numerator(-(10**30))), "credit_too_large"),
    (
        "a credit that nobody asked for",
        forged(ChargeCredited, lambda _: {"charge_id": "f" * 32}, "charge_id"),
        "credit_unexpected",
    ),
    ("a failed drain is lost", drain_lost, "credit_unexpected"),
    ("a gap is not told", dropped(Gap), "gap_differs"),
    ("a record is lost from quarantine", dropped(Quarantined, is_whole), "quarantine_missing"),
    (
        "a record is in quarantine for another reason",
        altered(
            Quarantined, lambda _: {"code": "future_time"}, lambda b: b["code"] == "other_body"
        ),
        "quarantine_differs",
    ),
    (
        "a record in quarantine says less",
        altered(Quarantined, lambda b: {"macc_ms": str(int(b["macc_ms"]) - 1)}, is_whole),
        "quarantine_differs",
    ),
    (
        "a part in quarantine says less",
        altered(Quarantined, lambda b: {"end_ms": b["end_ms"] - 1}, is_part),
        "quarantine_differs",
    ),
    ("a record is in quarantine twice", doubled(Quarantined, is_whole), "quarantine_unexpected"),
    (
        "a record in quarantine is none",
        forged(Quarantined, lambda _: {"offset": 10**6, "start_ms": None, "end_ms": None}, "-"),
        "quarantine_unexpected",
    ),
    ("an entry is lost", dropped(LedgerEntryPosted), "ledger_missing"),
    ("an entry occurs twice", doubled(LedgerEntryPosted), "ledger_twice"),
    (
        "an entry does not balance",
        altered(LedgerEntryPosted, more_to_the_wallet(1, balance=False), of_kind("usage")),
        "ledger_unbalanced",
    ),
    (
        "a wallet is off by 1",
        altered(LedgerEntryPosted, more_to_the_wallet(1, balance=True), of_kind("usage")),
        "ledger_differs",
    ),
    (
        "a credit entry is off by 1",
        altered(LedgerEntryPosted, more_to_the_wallet(-1, balance=True), of_kind("credit")),
        "ledger_differs",
    ),
    (
        "an expiry is off by 1",
        altered(LedgerEntryPosted, more_to_the_wallet(1, balance=True), of_kind("expiry")),
        "ledger_differs",
    ),
    (
        "a boundary has moved",
        altered(LedgerEntryPosted, lambda b: {"boundary_ms": b["boundary_ms"] + 300_000}),
        "ledger_differs",
    ),
    (
        "a total is not what it was",
        altered(LedgerEntryPosted, lambda _: {"exact_total": "1/7"}),
        "ledger_differs",
    ),
    ("an entry comes a step late", delayed(LedgerEntryPosted), "ledger_moved"),
    (
        "an entry that no boundary asks for",
        forged(LedgerEntryPosted, lambda _: {"entry_id": "f" * 32}, "entry_id"),
        "ledger_unexpected",
    ),
    ("a pool mints more than its weight", every_income_a_tenth_more, "minted"),
    (
        "a balance is off by 1",
        altered(BalancePublished, lambda b: {"wallet_micro": b["wallet_micro"] + 1}),
        "balance_differs",
    ),
    (
        "a balance says that less was spent",
        altered(BalancePublished, lambda b: {"spent_micro": b["spent_micro"] - 1}),
        "balance_differs",
    ),
    ("the last balance is lost", last_balance_lost, "balance_missing"),
    (
        "an invoice asks for 1 more",
        altered(InvoicePublished, dear_line(1, payable=True), last_revision("issued")),
        "invoice_differs",
    ),
    (
        "payables do not add up",
        altered(InvoicePublished, dear_line(1, payable=True), last_revision("issued")),
        "invoice_sum",
    ),
    (
        "an invoice is not the sum of its lines",
        altered(InvoicePublished, dear_line(1, payable=False), last_revision("issued")),
        "unreadable",
    ),
    (
        "the exact amount of an invoice is off by 1",
        altered(InvoicePublished, exact_line, last_revision("issued")),
        "invoice_differs",
    ),
    (
        "the invoice of a pool is off by 1",
        altered(InvoicePublished, dear_line(-1, payable=True), last_revision("issued", "pool")),
        "invoice_differs",
    ),
    (
        "an invoice is due later",
        altered(InvoicePublished, lambda b: {"due_ms": b["due_ms"] + 1}, last_revision("issued")),
        "invoice_differs",
    ),
    (
        "an issued invoice is a draft again",
        altered(
            InvoicePublished,
            lambda _: {"state": "draft"},
            lambda b: last_revision("issued")(b) and b["pool"] == "p",
        ),
        "invoice_differs",
    ),
    ("an invoice is lost", invoice_lost("team"), "invoice_missing"),
    ("the invoice of a pool is lost", invoice_lost("pool"), "invoice_missing"),
    ("the last revisions are lost", without_the_last_hour, "invoice_missing"),
    (
        "an invoice that nothing asks for",
        forged(
            InvoicePublished,
            lambda _: {"invoice_id": "f" * 32, "revision": 0, "team": "t1", "scope": "team"},
            "invoice_id",
        ),
        "invoice_unexpected",
    ),
]


@pytest.mark.parametrize(
    ("tampering", "code"),
    [tampering[1:] for tampering in TAMPERINGS],
    ids=[f"{code}: {words}" for words, _, code in TAMPERINGS],
)
def test_tampering_is_found_and_named(clean: MemoryLog, tampering: Tampering, code: str) -> None:
    log = copied(clean)
    tampering(log)

    report = audited(log)
    assert report.found[code], dict(report.found)


def test_the_log_that_is_tampered_with_is_clean(clean: MemoryLog) -> None:
    report = audited(clean)
    assert report.is_clean, report.differences[:10]


def test_each_kind_of_difference_has_its_canary() -> None:
    assert {code for *_, code in (*TAMPERINGS, *MORE_TAMPERINGS)} == set(CODES)


def test_a_difference_says_where_it_is_what_must_be_and_what_is(clean: MemoryLog) -> None:
    log = copied(clean)
    held, place, body = first(log, ChargeRated, is_charge)
    offset, amount = held[place].offset, int(body["amount_numerator"])
    put(held, place, body, amount_numerator=str(amount + 1))

    (difference,) = [d for d in audited(log).differences if d.code == "charge_differs"]
    assert difference.where.endswith(f"@{offset}")
    assert body["charge_id"] in difference.subject
    assert difference.expected == f"amount_numerator {amount}"
    assert difference.found == f"amount_numerator {amount + 1}"
