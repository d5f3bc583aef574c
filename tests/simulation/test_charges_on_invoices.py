"""Billing and invoicing on one log: what is metered is charged, posted and invoiced alike."""

import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

import pytest

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    TEAMS,
    Bench,
    drain,
    price,
    usage,
)
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.charges import ChargeCredited, ChargeRated, UsageQuarantined
from walras_contracts.event import Event
from walras_contracts.invoices import InvoiceLineKind, InvoicePublished, InvoiceState
from walras_contracts.ledger import EntryKind, LedgerEntryPosted
from walras_contracts.work import WorkClass
from walras_invoicing.settings import Settings
from walras_invoicing.wiring import build
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit

E = TypeVar("E", bound=Event)
UNITS = 3_600_000_000_000_000
HOUR = 60
"""Minutes."""


class Chain:
    """Billing, and invoicing behind it on the same log; periods are hours."""

    def __init__(self) -> None:
        self.billing = Bench()
        self.invoicing = MemoryRunner(build(Settings(kafka_bootstrap="none:0")), self.billing.log)
        self._number = -1
        terms = BillingTerms(period=BillingPeriod.HOUR, grace_ms=30 * MINUTE_MS)
        teams = tuple(TeamAccount(team=team, income_local_per_hour=1) for team in TEAMS)
        document = PoolDocument(pool="p", weight_micro_per_hour=10**9, billing=terms, teams=teams)
        change = AccountsChanged(version=1, effective_ms=START_MS, document=document)
        self.step(0, emit(change), price(0, 100_001))

    def step(self, minute: int, *given: Output) -> None:
        self._number += 1
        barrier = Barrier(self._number, START_MS + minute * MINUTE_MS)
        self.billing.log.append_barrier("invoices.requests", 0, barrier)
        self.billing.step(minute, *given)
        assert self.invoicing.advance() == 1

    def events(self, topic: str, kind: type[E]) -> list[E]:
        return self.billing.events(topic, kind)

    def latest(self) -> dict[tuple[str, int], InvoicePublished]:
        """The latest revisions by team (empty: the pool) and minute of the start."""
        return {(e.team or "", (e.start_ms - START_MS) // MINUTE_MS): e for e in self.published()}

    def published(self) -> list[InvoicePublished]:
        entries = self.billing.log.read("invoices", 0, 0)
        return [
            InvoicePublished.model_validate_json(entry.payload)
            for entry in entries
            if entry.payload is not None and entry.type == InvoicePublished.TYPE
        ]


def test_r23_late_use_is_a_draft_changed_then_a_correction_then_a_line_of_the_report() -> None:
    chain = Chain()
    chain.step(2, usage(0))
    chain.step(70, usage(10, seq=1))
    chain.step(85, usage(11, seq=2))
    chain.step(90)
    issued = chain.latest()["t1", 0]
    assert (issued.state, issued.payable_micro) == (InvoiceState.ISSUED, 3 * 100_001)

    chain.step(95, usage(20, seq=3))
    chain.step(120)
    (line,) = chain.latest()["t1", HOUR].lines
    assert (line.kind, line.amount_micro) == (InvoiceLineKind.CORRECTION, 100_001)
    assert line.period_start_ms == START_MS

    day = 24 * HOUR
    chain.step(day + 60, usage(30, seq=4))
    chain.step(day + 121)
    assert chain.latest()["t1", day + HOUR].rejected_late_macc_ms == str(60_000 * MINUTE_MS)
    assert chain.latest()["t1", 0] == issued


def test_a_charge_over_a_border_is_corrected_on_the_invoice_of_the_part_that_changed() -> None:
    chain = Chain()
    chain.step(58, price(58, 0))
    chain.step(62, usage(59, minutes=2))
    chain.step(63)
    (rated,) = chain.events("charges", ChargeRated)
    assert (rated.price_micro, rated.end_ms - rated.start_ms) == (0, 2 * MINUTE_MS)
    chain.step(65, price(60, 100_001))
    chain.step(2 * HOUR)
    lines = {
        minute: [
            (e.price_micro, e.charges, e.amount_micro) for e in chain.latest()["t1", minute].lines
        ]
        for minute in (0, HOUR)
    }
    assert lines == {0: [(0, 1, 0)], HOUR: [(100_001, 1, 100_001)]}


def test_use_of_a_pool_without_a_document_is_neither_charged_nor_invoiced() -> None:
    """Its terms are not known; that they become known later changes nothing about it."""
    chain = Chain()
    chain.step(8, of_pool_q(price(8, 100_001)))
    chain.step(12, of_pool_q(usage(9, minutes=2)))
    chain.step(13)
    terms = BillingTerms(period=BillingPeriod.HOUR, grace_ms=30 * MINUTE_MS)
    document = PoolDocument(pool="q", weight_micro_per_hour=1, billing=terms, teams=())
    effective_ms = START_MS + 14 * MINUTE_MS
    chain.step(14, emit(AccountsChanged(version=1, effective_ms=effective_ms, document=document)))
    chain.step(15, of_pool_q(price(10, 200_003)))
    chain.step(2 * HOUR)
    assert not [e for e in chain.events("charges", ChargeRated) if e.pool == "q"]
    (refused,) = chain.events("usage.quarantined", UsageQuarantined)
    assert refused.code == "unknown_pool"
    assert not [e for e in chain.published() if (e.pool, e.team) == ("q", "t1")]


def of_pool_q(output: Output) -> Output:
    payload = output.payload or b""
    return replace(output, payload=payload.replace(b'"pool":"p"', b'"pool":"q"'))


@pytest.mark.parametrize("seed", range(4))
def test_invoices_ledger_and_charges_agree_whatever_comes_late(seed: int) -> None:
    print(f"seed {seed}")
    chain = Chain()
    chooser = random.Random(seed)
    seqs: dict[str, int] = defaultdict(int)
    sessions = 0
    for minute in range(3, 9 * HOUR, 3):
        given = []
        if chooser.random() < 0.5:
            late = chooser.choice((0, 0, 50))
            given.append(price(max(0, minute - late), chooser.randrange(1, 10**6)))
        for team in TEAMS:
            lease = f"l-{team}"
            late = chooser.choice((0, 0, 0, 120))
            given.append(
                usage(
                    max(0, minute - 2 - late),
                    seq=seqs[team],
                    team=team,
                    lease=lease,
                    macc=chooser.randrange(1, 10**5),
                    work_class=chooser.choice((WorkClass.MARKET, WorkClass.OPPORTUNISTIC)),
                )
            )
            seqs[team] += 1
            if minute % 99 == 0:
                start = minute - 99
                given.append(usage(start, seq=start, team=team, lease=f"long-{team}", minutes=99))
            if chooser.random() < 0.05:
                sessions += 1
                given.append(
                    drain(minute - 2, minute, lease=lease, team=team, session=f"s{sessions}")
                )
        chain.step(minute, *given)
    for minute in range(9 * HOUR, 12 * HOUR, 3):
        chain.step(minute)

    for team in TEAMS:
        lines = [c for c in chain.events("charges", ChargeRated) if c.team == team]
        given_back = [c for c in chain.events("charges", ChargeCredited) if c.team == team]
        rated = Fraction(sum(int(c.amount_numerator) for c in lines), UNITS)
        credited = Fraction(sum(int(c.amount_numerator) for c in given_back), UNITS)
        invoices = [e for (name, _), e in chain.latest().items() if name == team]
        assert not any(e.held for e in invoices), "the ledger agrees"
        # What was charged and what was given back are each rounded by themselves.
        assert wallet_micro(chain, team) == -round(rated) + round(-credited)
        assert sum(e.payable_micro for e in invoices) == -wallet_micro(chain, team)
    pools = [e for (name, _), e in chain.latest().items() if not name]
    teams = [e for (name, _), e in chain.latest().items() if name]
    assert sum(e.payable_micro for e in pools) == sum(e.payable_micro for e in teams)
    kinds = {line.kind for e in teams for line in e.lines}
    assert kinds == {*InvoiceLineKind}, "the story has use, corrections, credits, free use"


def wallet_micro(chain: Chain, team: str) -> int:
    """What the ledger took from and gave to a wallet for use and credits."""
    return sum(
        line.amount_micro
        for entry in chain.events("ledger", LedgerEntryPosted)
        if entry.kind in {EntryKind.USAGE, EntryKind.CREDIT}
        for line in entry.lines
        if line.account == f"wallet/{team}"
    )
