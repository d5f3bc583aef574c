"""Invoicing on a log in memory, and what billing and finance write to it."""

from collections.abc import Sequence
from typing import Any

from walras_contracts.accounts import AccountsChanged, BillingPeriod, BillingTerms, PoolDocument
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    ChargeRated,
    ChargeReason,
    CreditReason,
    UsageQuarantined,
)
from walras_contracts.identifiers import digest_of
from walras_contracts.invoices import (
    InvoiceAction,
    InvoicePublished,
    InvoiceRefused,
    InvoiceRequested,
)
from walras_contracts.ledger import EntryKind, LedgerEntryPosted, LedgerLine
from walras_contracts.quantities import PPM
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import WorkClass
from walras_invoicing.handlers import InvoicingStage
from walras_invoicing.settings import Settings
from walras_invoicing.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit, tombstone

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
START_MS = 20_000 * DAY_MS
"""Midnight of 4 October 2024 in UTC; a Friday."""
UNITS = 3_600_000_000_000_000
"""So many units of a numerator make one µcr."""


class Bench:
    """The stage on a log; with ``crash`` it is built anew from the log before every step."""

    def __init__(self, *, crash: bool = False) -> None:
        self.log = MemoryLog(load_topics())
        self._spec = build(Settings(kafka_bootstrap="none:0"))
        self._crash = crash
        self._number = -1
        self._read = 0
        self._decoded: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """Drop the process and start a new one on the same log."""
        self.runner = MemoryRunner(self._spec, self.log)

    def compact(self) -> None:
        """Compact what is compacted, and lose what is in memory."""
        for topic in self.log.topics.values():
            if topic.cleanup == "compact":
                self.log.compact(topic.name)
        self.restart()

    def step(self, at_ms: int, *given: Output) -> list[InvoicePublished]:
        """Write what comes in an interval and its barrier at START_MS + ``at_ms``; step.

        Returns
        -------
        list
            The revisions that the step wrote.
        """
        self._number += 1
        self.log.append(given)
        barrier = Barrier(self._number, START_MS + at_ms)
        for source in self._spec.inputs:
            for partition in self.log.partitions(source.topic):
                self.log.append_barrier(source.topic, partition, barrier)
        if self._crash:
            self.restart()
        before = len(self.revisions())
        assert self.runner.advance() == 1
        return self.revisions()[before:]

    def written(self) -> list[tuple[str, bytes | None]]:
        """All records that the stage wrote: key and payload."""
        entries = self.log.read("invoices", 0, 0)
        return [(entry.key, entry.payload) for entry in entries if entry.barrier is None]

    def revisions(self) -> list[InvoicePublished]:
        """Return all revisions in their order."""
        return [e for e in self._events() if isinstance(e, InvoicePublished)]

    def refused(self) -> list[tuple[str, str]]:
        """Return the actions that were refused, with the codes."""
        return [(e.action.value, e.code) for e in self._events() if isinstance(e, InvoiceRefused)]

    def latest(self) -> dict[tuple[str, str, int], InvoicePublished]:
        """Return the latest revision by pool, team (empty: the pool's) and start."""
        return {(e.pool, e.team or "", e.start_ms - START_MS): e for e in self.revisions()}

    def invoice(self, start_ms: int = 0, team: str = "t1", pool: str = "p") -> InvoicePublished:
        """Return the latest revision of an invoice; ``start_ms`` counts from START_MS."""
        return self.latest()[pool, team, start_ms]

    def stage(self) -> InvoicingStage:
        """Return the stage, to look into its memory."""
        assert isinstance(self.runner.stage, InvoicingStage)
        return self.runner.stage

    def state(self) -> dict[str, str]:
        """Return the stage's own state as the state topic has it."""
        return dict(state_digest_input(self.log, "invoicing"))

    def _events(self) -> list[Any]:
        """Return what is on the topic; what was read before is not decoded again."""
        for entry in self.log.read("invoices", 0, self._read):
            self._read = entry.offset + 1
            if entry.barrier is None and entry.payload is not None:
                self._decoded.append(decode_inner(entry.type, entry.payload))
        return self._decoded


def pool(
    *,
    name: str = "p",
    version: int = 1,
    at_ms: int = 0,
    period: BillingPeriod = BillingPeriod.DAY,
    zone: str = "UTC",
    **terms: Any,
) -> Output:
    """Return a pool's document with terms of billing."""
    billing = BillingTerms(period=period, zone=zone, **terms)
    document = PoolDocument(pool=name, weight_micro_per_hour=1, billing=billing, teams=())
    effective_ms = START_MS + at_ms
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def charge(
    start_ms: int,
    numerator: int,
    *,
    team: str = "t1",
    of_pool: str = "p",
    job: str = "j",
    market: str = "m",
    length_ms: int = 1,
    macc: int = 1,
    price: int | None = None,
    previous: int | None = None,
    work_class: WorkClass = WorkClass.MARKET,
    billable: bool = True,
    corrects: bool = False,
) -> Output:
    """Return a charge line, by its amount, or, where ``price`` is given, by its price."""
    if price is None and previous is None:
        tariff = 1
        price = numerator
    else:
        tariff = PPM
    amount = ((price or 0) - (previous or 0)) * tariff * macc * length_ms
    names = (team, job, market, work_class.value)
    key = digest_of("test", *names, str(start_ms), str(amount), str(price), str(corrects))
    return emit(
        ChargeRated(
            team=team,
            pool=of_pool,
            job=job,
            market=market,
            lease="l",
            node="n",
            attempt=0,
            seq=0,
            quantity_macc=macc,
            start_ms=START_MS + start_ms,
            end_ms=START_MS + start_ms + length_ms,
            limit_micro=None,
            tariff_ppm=tariff,
            prices_until_ms=START_MS,
            charge_id=key,
            corrects=key if corrects else None,
            reason=ChargeReason.LATE_PRICE if corrects else ChargeReason.USAGE,
            work_class=work_class,
            billable=billable,
            price_micro=price,
            previous_price_micro=previous,
            price_barrier=0,
            amount_numerator=str(amount),
        )
    )


def credit(
    start_ms: int,
    numerator: int,
    *,
    team: str = "t1",
    of_pool: str = "p",
    length_ms: int = 1,
) -> Output:
    """Return a credit of an amount, which is not above 0."""
    return emit(
        ChargeCredited(
            team=team,
            pool=of_pool,
            job="j",
            market="m",
            lease="l",
            node="n",
            attempt=0,
            seq=0,
            quantity_macc=1,
            start_ms=START_MS + start_ms,
            end_ms=START_MS + start_ms + length_ms,
            limit_micro=None,
            tariff_ppm=1,
            prices_until_ms=START_MS,
            charge_id=digest_of("credit", team, str(start_ms), str(numerator)),
            credits=digest_of("credited", team, str(start_ms)),
            reason=CreditReason.HEARTBEAT_GAP,
            session="",
            amount_numerator=str(numerator),
        )
    )


def pending(start_ms: int, macc: int, *, length_ms: int = 1, ended: bool = False) -> Output:
    """Return a part of use that waits for its price, or no longer."""
    event = ChargePending(
        team="t1",
        pool="p",
        job="j",
        market="m",
        lease="l",
        node="n",
        attempt=0,
        seq=0,
        quantity_macc=macc,
        start_ms=START_MS + start_ms,
        end_ms=START_MS + start_ms + length_ms,
        limit_micro=None,
        tariff_ppm=1,
        prices_until_ms=START_MS,
    )
    if ended:
        return tombstone(ChargePending, event.record_key(), event.partition_key())
    return emit(event)


def rejected_late(macc_ms: int, code: str = "rejected_late") -> Output:
    """Return use of the team that is not charged."""
    return emit(
        UsageQuarantined(
            code=code,
            reason="",
            record="r",
            team="t1",
            pool="p",
            macc_ms=str(macc_ms),
            topic="usage",
            partition=0,
            offset=0,
            start_ms=None,
            end_ms=None,
        )
    )


def entry(kind: EntryKind, exact_total: str, *, team: str = "t1", of_pool: str = "p") -> Output:
    """Return an entry of the ledger with a running total."""
    lines = (
        LedgerLine(account=f"mint/{of_pool}", amount_micro=-1),
        LedgerLine(account=f"wallet/{team}", amount_micro=1),
    )
    return emit(
        LedgerEntryPosted(
            entry_id=digest_of("ledger", kind.value, team, of_pool, exact_total),
            kind=kind,
            team=team,
            pool=of_pool,
            boundary_ms=START_MS,
            exact_total=exact_total,
            lines=lines,
        )
    )


def ask(invoice: InvoicePublished | str, action: InvoiceAction, reason: str = "why") -> Output:
    """Return what finance asks of an invoice."""
    name = invoice if isinstance(invoice, str) else invoice.invoice_id
    return emit(InvoiceRequested(invoice_id=name, action=action, reason=reason))


def payables_micro(revisions: Sequence[InvoicePublished]) -> int:
    """Return the sum of what is payable of invoices that are not voided."""
    return sum(e.payable_micro for e in revisions if e.state.value != "voided")
