"""Nothing that billing charges and nothing that finance asks stops invoicing, a single leader.

Use that overlaps, comes late and twice, prices that come late or are not known, failed drains,
pools that change zone and period, invoices with few lines, requests for invoices in any state.
"""

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from services.billing.tests.billing_bench import (
    MINUTE_MS,
    START_MS,
    TEAMS,
    drain,
    price,
    price_gap,
    usage,
)
from tests.simulation.test_charges_on_invoices import HOUR, Chain, wallet_micro
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    PoolDocument,
    PriceGapPolicy,
    TeamAccount,
)
from walras_contracts.charges import ChargeCredited, ChargeRated, ChargeReason
from walras_contracts.invoices import (
    LINES_MAX,
    InvoiceAction,
    InvoiceLineKind,
    InvoiceRefused,
    InvoiceRequested,
    InvoiceState,
)
from walras_contracts.work import WorkClass
from walras_invoicing import lines
from walras_invoicing.lines import LineBook, LineKey
from walras_runtime.records import Output, emit

STEP = 3
"""Minutes."""
SETTLEMENT = 5
"""Minutes."""
ZONES = ("UTC", "Asia/Kolkata", "Australia/Lord_Howe")


class Story:
    """What billing and finance say in each step, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._chooser = random.Random(seed)
        self._numbers: dict[tuple[str, int], int] = defaultdict(int)
        self._version = 1
        self._sessions = 0

    def of_step(self, minute: int, known: list[str]) -> Iterator[Output]:
        """Yield the records of a step; ``known`` are ids of invoices."""
        chooser = self._chooser
        if chooser.random() < 0.5:
            at = max(0, minute - chooser.choice((0, 0, 50, 100)))
            yield price(at, chooser.choice((None, 0, chooser.randrange(1, 10**6))))
        if chooser.random() < 0.05:
            policy = chooser.choice([*PriceGapPolicy])
            yield price_gap(max(0, minute - 40), max(1, minute - chooser.randrange(1, 30)), policy)
        if chooser.random() < 0.08:
            yield self._document(minute)
        for team in TEAMS:
            for _ in range(chooser.randrange(3)):
                yield self._usage(minute, team)
            if chooser.random() < 0.05:
                self._sessions += 1
                warned = max(0, minute - chooser.randrange(2, 90))
                session, lease = f"s{self._sessions}", f"l-{team}-0"
                yield drain(warned, minute, lease=lease, team=team, session=session)
        if chooser.random() < 0.5:
            name, action = chooser.choice([*known, "0" * 32]), chooser.choice([*InvoiceAction])
            yield emit(InvoiceRequested(invoice_id=name, action=action, reason="x" * 500))

    def _document(self, minute: int) -> Output:
        chooser = self._chooser
        self._version += 1
        terms = BillingTerms(
            period=chooser.choice((BillingPeriod.HOUR, BillingPeriod.HOUR, BillingPeriod.DAY)),
            zone=chooser.choice(ZONES),
            grace_ms=chooser.choice((0, 30, 90)) * MINUTE_MS,
            approval=chooser.random() < 0.2,
        )
        teams = tuple(TeamAccount(team=team, income_local_per_hour=1) for team in TEAMS)
        document = PoolDocument(pool="p", weight_micro_per_hour=10**9, billing=terms, teams=teams)
        effective_ms = START_MS + (minute // SETTLEMENT + 1) * SETTLEMENT * MINUTE_MS
        return emit(
            AccountsChanged(version=self._version, effective_ms=effective_ms, document=document)
        )

    def _usage(self, minute: int, team: str) -> Output:
        """Return use, mostly the next of its source; or one that skips, fills or repeats."""
        chooser = self._chooser
        lease, attempt = f"l-{team}-{chooser.randrange(2)}", chooser.choice((1, 1, 1, 2))
        source, following = (lease, attempt), self._numbers[lease, attempt]
        if chooser.random() < 0.8:
            number = following + chooser.choice((0, 0, 0, 1, 2))
        else:
            number = max(0, following - chooser.randrange(1, 4))
        self._numbers[source] = max(following, number + 1)
        return usage(
            max(0, minute - 2 - chooser.choice((0, 0, 1, 3, 100))),
            seq=number,
            team=team,
            lease=lease,
            attempt=attempt,
            macc=chooser.choice((1000, chooser.randrange(1, 10**5))),
            minutes=chooser.choice((1, 2, 5, 70)),
            work_class=chooser.choice((WorkClass.MARKET, WorkClass.OPPORTUNISTIC)),
            billable=chooser.random() < 0.9,
            limit=chooser.choice((None, None, 300_000)),
        )


def live(seed: int) -> Chain:
    """Let billing and invoicing live through a story; invoices are issued in the quiet after it."""
    chain, story = Chain(), Story(seed)
    for minute in range(STEP, 6 * HOUR, STEP):
        known = sorted({invoice.invoice_id for invoice in chain.published()})
        chain.step(minute, *story.of_step(minute, known))
    for minute in range(6 * HOUR, 10 * HOUR, STEP):
        chain.step(minute)
    return chain


def refusals(chain: Chain) -> list[InvoiceRefused]:
    return [
        InvoiceRefused.model_validate_json(entry.payload)
        for entry in chain.billing.log.read("invoices", 0, 0)
        if entry.payload is not None and entry.type == InvoiceRefused.TYPE
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lines_max", [3, LINES_MAX])
def test_every_draft_holds_what_is_taken_back_and_all_that_is_charged_is_payable(
    seed: int, lines_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: list[tuple[LineKey, int]] = []
    holds = LineBook.holds

    def watched(book: LineBook, key: LineKey, macc_ms: int) -> bool:
        found = holds(book, key, macc_ms)
        if not found:
            missed.append((key, macc_ms))
        return found

    monkeypatch.setattr(lines, "LINES_MAX", lines_max)
    monkeypatch.setattr(LineBook, "holds", watched)
    chain = live(seed)
    assert missed == []
    for team in TEAMS:
        latest = {e.invoice_id: e for e in chain.published() if e.team == team}.values()
        assert not any(e.reason.startswith("ledger_differs") for e in latest)
        payable = sum(e.payable_micro for e in latest if e.state is not InvoiceState.VOIDED)
        assert payable == -wallet_micro(chain, team)


def test_the_stories_have_what_could_stop_it() -> None:
    reasons, kinds, states, codes = set(), set(), set(), set()
    zones, credited = set(), 0
    for seed in range(6):
        chain = live(seed)
        reasons |= {charge.reason for charge in chain.events("charges", ChargeRated)}
        credited += len(chain.events("charges", ChargeCredited))
        for invoice in chain.published():
            kinds |= {line.kind for line in invoice.lines}
            states.add(invoice.state)
            zones.add(invoice.zone)
        codes |= {refusal.code for refusal in refusals(chain)}
    assert reasons == {*ChargeReason}
    assert kinds == {*InvoiceLineKind}
    assert states == {*InvoiceState}
    assert zones == {*ZONES}
    assert credited > 0
    assert {"unknown_invoice", "voided", "issued", "not_due", "not_issued"} <= codes
