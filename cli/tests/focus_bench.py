"""The real invoicing service on a log in memory, and charges of some days, for exports."""

import random
from dataclasses import dataclass, field
from functools import cache

from walras.billing_log import Source, Window
from walras.billing_log.testing import (
    HOUR_MS,
    MemorySource,
    charge,
    correction,
    credit,
    prices,
)
from walras.focus.exporting import Exported, export
from walras.focus.rows import Row
from walras.invoices.latest import Selection
from walras_contracts.accounts import AccountsChanged, BillingPeriod, BillingTerms, PoolDocument
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.event import Event
from walras_contracts.invoices import (
    InvoiceAction,
    InvoicePublished,
    InvoiceRequested,
    InvoiceState,
)
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import WorkClass
from walras_invoicing.settings import Settings
from walras_invoicing.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, emit

DAY_MS = 24 * HOUR_MS
START_MS = 20_000 * DAY_MS
ALL, EVERYTHING = Window(), Selection()


@dataclass
class Invoicing:
    """The real invoicing stage on a log in memory, and the log as the export reads it."""

    log: MemoryLog = field(default_factory=lambda: MemoryLog(load_topics()))
    charges: list[Event | Barrier] = field(default_factory=list)
    number: int = -1

    def __post_init__(self) -> None:
        self.spec = build(Settings(kafka_bootstrap="none:0"))
        self.runner = MemoryRunner(self.spec, self.log)

    def step(self, at_ms: int, *events: Event) -> None:
        self.number += 1
        barrier = Barrier(self.number, at_ms)
        self.log.append([emit(event) for event in events])
        for source in self.spec.inputs:
            for partition in self.log.partitions(source.topic):
                self.log.append_barrier(source.topic, partition, barrier)
        assert self.runner.advance() == 1
        self.charges += [e for e in events if isinstance(e, ChargeRated | ChargeCredited)]
        self.charges.append(barrier)

    def invoices(self) -> list[InvoicePublished]:
        events = [
            decode_inner(entry.type, entry.payload)
            for entry in self.log.read("invoices", 0, 0)
            if entry.barrier is None and entry.payload is not None
        ]
        return [event for event in events if isinstance(event, InvoicePublished)]

    def source(self, *others: Event) -> MemorySource:
        return MemorySource([*self.charges, *self.invoices(), *others])


def pool(name: str = "p") -> AccountsChanged:
    billing = BillingTerms(period=BillingPeriod.DAY, grace_ms=HOUR_MS)
    document = PoolDocument(pool=name, weight_micro_per_hour=1, billing=billing, teams=())
    return AccountsChanged(version=1, effective_ms=START_MS, document=document)


def rows_of(source: Source, window: Window = ALL, **wanted: str) -> tuple[Exported, list[Row]]:
    rows: list[Row] = []
    return export(source, window, Selection(**wanted), "Walras", rows.extend), rows


@cache
def random_days(seed: int) -> Invoicing:
    """Some days of two teams: charges, late ones, corrections, credits, voids. For reading only.

    Some charges last for hours, and lie over the border of days.
    """
    draw = random.Random(seed)
    invoicing = Invoicing()
    invoicing.step(START_MS, pool())
    paid: list[ChargeRated] = []
    current: list[tuple[ChargeRated, int, int, int]] = []
    """Parts of charges, each with start, end and price."""
    at_ms = START_MS
    for seq in range(60):
        at_ms += draw.choice([HOUR_MS // 2, HOUR_MS, 3 * HOUR_MS])
        events: list[Event] = []
        for _ in range(draw.randint(0, 3)):
            back_ms = draw.choice([0, 0, HOUR_MS, DAY_MS, 2 * DAY_MS])
            start_ms = max(START_MS, at_ms - back_ms - HOUR_MS) // 300_000 * 300_000
            is_free = draw.random() < 0.2
            longest_ms = draw.choice([300_000, 300_000, 5 * HOUR_MS, DAY_MS])
            line = charge(
                start_ms,
                start_ms + draw.randint(1, longest_ms),
                0 if is_free else draw.randint(0, 3 * 10**6),
                team=draw.choice(["t", "u"]),
                job=draw.choice(["a", "b"]),
                lease=f"l-{seq}-{len(events)}",
                quantity_macc=draw.randint(1, 9000),
                tariff_ppm=draw.choice([10**6, 1_234_567]),
                work_class=WorkClass.OPPORTUNISTIC if is_free else WorkClass.MARKET,
            )
            if not is_free:
                paid.append(line)
                current.append((line, line.start_ms, line.end_ms, line.price_micro or 0))
            events.append(line)
        if current and draw.random() < 0.5:
            line, from_ms, to_ms, before = current.pop(draw.randrange(len(current)))
            first_ms = draw.choice([from_ms, draw.randrange(from_ms, to_ms)])
            behind_ms = draw.choice([to_ms, draw.randrange(first_ms, to_ms) + 1])
            after = draw.randint(0, 3 * 10**6)
            parts = [(from_ms, first_ms, before), (first_ms, behind_ms, after)]
            parts.append((behind_ms, to_ms, before))
            current += [(line, *part) for part in parts if part[0] < part[1]]
            if before != after:
                more = {"price_micro": after, "previous_price_micro": before, "price_barrier": seq}
                events.append(correction(line, first_ms, behind_ms, **more))
        if paid and draw.random() < 0.2:
            line = draw.choice(paid)
            over = seq * (line.end_ms - line.start_ms)
            events.append(credit(line, -int(line.amount_numerator) - over))
        issued = [e for e in latest(invoicing) if e.team and e.state is InvoiceState.ISSUED]
        if issued and draw.random() < 0.1:
            name = draw.choice(issued).invoice_id
            action = InvoiceAction.VOID
            events.append(InvoiceRequested(invoice_id=name, action=action, reason="test"))
        invoicing.step(at_ms, *events)
    # The first step of an hour writes what changed.
    invoicing.step((at_ms // HOUR_MS + 1) * HOUR_MS)
    return invoicing


def latest(invoicing: Invoicing) -> list[InvoicePublished]:
    return [*{each.invoice_id: each for each in invoicing.invoices()}.values()]


REFERENCE = (
    prices(START_MS, 2 * 10**6),
    prices(START_MS + DAY_MS, None),
    prices(START_MS + 2 * DAY_MS, 7),
)
