"""Hours of a market's money on a log in memory, by the real billing and invoicing stages.

All that can happen does: prices and usage that come late, again, wrong or never, gaps of both
policies, overlapping numbers and attempts, failed drains, accounts that change, finance that holds,
approves and voids. For the tests of the audit.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import walras_billing.settings
import walras_billing.wiring
import walras_invoicing.settings
import walras_invoicing.wiring
from cli.tests.audit_budgets import Budgets, drawn_budgets
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    Document,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    PriceGapPolicy,
    TeamAccount,
)
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceRequested
from walras_contracts.market import PoolPrice, PriceGapPublished, PricePublished
from walras_contracts.quantities import MACC_MAX, PPM
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import DrainState, DrainStatusChanged, UsageMetered, WorkClass
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit

MINUTE_MS = 60_000
START_MS = 1_727_992_800_000
"""A full hour, and a multiple of five minutes, in October 2024."""
WRITTEN_FROM_OUTSIDE = ("usage", "drain.status", "prices", "accounts", "invoices.requests")
POOLS = {"p": ("t1", "t2", "t3"), "q": ("t4", "t5")}
ZONES = {
    "p": ("Europe/Budapest", "America/New_York", "UTC"),
    "q": ("Asia/Kolkata", "Asia/Kathmandu", "UTC"),
}
"""Of the pools: the one that each begins in, and others; those of p have the same full hours."""
MARKETS = ("a", "b")
LEASES = {"l1": "t1", "l2": "t2", "l3": "t3", "l4": "t4", "l5": "t5", "l6": "t1"}


class MoneyWorld:
    """Billing of every partition, and invoicing, on a log."""

    def __init__(self, *, invoicing: bool = True, **settings: Any) -> None:
        self.log = MemoryLog(load_topics())
        billing = walras_billing.wiring.build(
            walras_billing.settings.Settings(kafka_bootstrap="none", **settings)
        )
        self._runners = [
            MemoryRunner(billing, self.log, partition) for partition in self.log.partitions("usage")
        ]
        if invoicing:
            invoices = walras_invoicing.wiring.build(
                walras_invoicing.settings.Settings(kafka_bootstrap="none:0")
            )
            self._runners.append(MemoryRunner(invoices, self.log))
        self.number = -1

    def step(self, minute: int, *given: Output) -> None:
        """Write what comes in a minute, and the barrier that ends it; let all stages step."""
        self.number += 1
        self.log.append(given)
        barrier = Barrier(self.number, START_MS + minute * MINUTE_MS)
        for topic in WRITTEN_FROM_OUTSIDE:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, barrier)
        for runner in self._runners:
            assert runner.advance() == 1

    def invoices(self) -> list[InvoicePublished]:
        """Return the last revision of every invoice."""
        latest: dict[str, InvoicePublished] = {}
        for entry in self.log.read("invoices", 0, 0):
            if entry.type == InvoicePublished.TYPE:
                event = decode_inner(entry.type, entry.payload or b"")
                assert isinstance(event, InvoicePublished)
                latest[event.invoice_id] = event
        return list(latest.values())


def written(log: MemoryLog, topic: str, kind: str = "") -> Iterator[tuple[int, int, Entry]]:
    """Yield partition, place in it and entry of what is on a topic, without barriers."""
    for partition in log.partitions(topic):
        for place, entry in enumerate(log.read(topic, partition, 0)):
            if entry.barrier is None and (not kind or entry.type == kind):
                yield partition, place, entry


def changed(document: Document, *, version: int = 1, minute: int = 0) -> Output:
    """Return a version of a document that counts from a minute on."""
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def pool(
    name: str,
    incomes: Sequence[int],
    *,
    weight: int = 70_000_001,
    period: BillingPeriod = BillingPeriod.HOUR,
    zone: str = "",
    budgets: Budgets | None = None,
) -> PoolDocument:
    """Return a pool with its teams' incomes; q is in a zone of half hours and approves by hand."""
    return PoolDocument(
        pool=name,
        weight_micro_per_hour=weight,
        billing=BillingTerms(
            zone=zone or ZONES[name][0],
            period=period,
            grace_ms=10 * MINUTE_MS,
            look_back_ms=3_600_000,
            approval=name == "q",
        ),
        teams=tuple(
            TeamAccount(
                team=team, income_local_per_hour=income, budgets=(budgets or {}).get(team, ())
            )
            for team, income in zip(POOLS[name], incomes, strict=True)
        ),
    )


def price(minute: int, market: str, micros: Sequence[int | None]) -> Output:
    """Return the prices of a market from a minute on, one for each pool."""
    pools = tuple(
        PoolPrice(pool=name, price_micro=micro, weight_micro_per_hour=1, local_income_per_hour=1)
        for name, micro in zip(sorted(POOLS), micros, strict=True)
    )
    return emit(
        PricePublished(
            market=market,
            cycle=0,
            market_time_ms=START_MS + minute * MINUTE_MS,
            reference_price_micro=None,
            pools=pools,
        )
    )


def price_gap(minute: int, end_minute: int, market: str, policy: PriceGapPolicy) -> Output:
    """Return that a market had no prices for some minutes."""
    return emit(
        PriceGapPublished(
            market=market,
            cycle=0,
            start_ms=START_MS + minute * MINUTE_MS,
            end_ms=START_MS + end_minute * MINUTE_MS,
            policy=policy,
        )
    )


def usage(lease: str, seq: int, from_ms: int, to_ms: int, **fields: Any) -> Output:
    """Return a usage record, times counted from the start; fields may be what none can have."""
    team = LEASES.get(lease, "t1")
    document: dict[str, Any] = {
        "lease": lease,
        "node": "n1",
        "attempt": 1,
        "seq": seq,
        "team": team,
        "pool": next(name for name, teams in POOLS.items() if team in teams),
        "job": f"job-{lease}",
        "market": "a",
        "quantity_macc": 8_000,
        "start_ms": START_MS + from_ms,
        "end_ms": START_MS + to_ms,
        "work_class": "market",
        "billable": True,
        "limit_micro": None,
        "tariff_ppm": PPM,
    } | fields
    source = f"{lease}/{document['node']}/{document['attempt']}"
    payload = json.dumps(document).encode()
    return Output(
        UsageMetered.TOPIC, f"{source}/{seq}", document["team"], UsageMetered.TYPE, payload
    )


def drain(lease: str, warned_ms: int, at_ms: int, state: DrainState, session: str) -> Output:
    """Return how far the drain of a lease had come."""
    return emit(
        DrainStatusChanged(
            session=session,
            lease=lease,
            node="n1",
            team=LEASES[lease],
            pool="p",
            job="j",
            state=state,
            outcome="agent_lost" if state is DrainState.FAILED else "",
            warned_ms=START_MS + warned_ms,
            at_ms=START_MS + at_ms,
        )
    )


@dataclass
class Source:
    """What numbers the records of a lease on a node in one attempt.

    From minute ``quiet_from`` until ``quiet_until`` it says nothing, and then all in one record.
    """

    lease: str
    node: str = "n1"
    attempt: int = 1
    seq: int = -1
    quiet_from: int = 0
    quiet_until: int = 0


@dataclass
class Hours:
    """Draws what comes in each minute; equal seeds give equal hours.

    ``quiet_minutes``: how long a source may say nothing and then all in one record. Where that is
    longer than the look-back billing forgets its numbers meanwhile, and the audit does not.
    ``price_odds``: how often a market tells a price in a minute.
    """

    seed: int
    minutes: int = 200
    quiet_minutes: Sequence[int] = (4, 8, 12)
    price_odds: float = 0.5
    arriving: dict[int, list[Output]] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.more = random.Random(f"{self.seed}/more")
        self.sources = [Source(lease) for lease in LEASES] + [Source("l1", "n2")]
        self._write(0, changed(PlatformDocument(max_balance_hours=1)))
        self._write(0, changed(MarketDocument(market="a")))
        of_p, of_q = (drawn_budgets(self.more, POOLS[name]) for name in "pq")
        self._write(0, changed(pool("p", (3, 5, 0), budgets=of_p)))
        self._write(0, changed(pool("q", (7, 7), weight=13_000_003, budgets=of_q)))
        for minute in range(self.minutes):
            self._prices(minute)
            for source in self.sources:
                self._usage(minute, source)
            self._trouble(minute)

    def run(self, world: MoneyWorld) -> MoneyWorld:
        """Let it happen."""
        for minute in range(self.minutes + 20):
            given = self.arriving.get(minute, [])
            world.step(minute, *given, *self._requests(world, minute))
        return world

    def _write(self, minute: int, output: Output) -> None:
        self.arriving.setdefault(minute, []).append(output)

    def _prices(self, minute: int) -> None:
        draw = self.draw
        for market in MARKETS:
            if draw.random() < self.price_odds:
                micros = [draw.choice((None, 0, 2_500_001, 3_333_333)) for _ in POOLS]
                lag = draw.choice((0, 0, 0, 0, 2, 6, 15))
                self._write(minute + lag, price(minute, market, micros))
            if draw.random() < 0.02:
                policy = draw.choice((*PriceGapPolicy,))
                end = minute + draw.randrange(1, 6)
                self._write(end + draw.choice((0, 0, 4)), price_gap(minute, end, market, policy))
                if draw.random() < 0.7:
                    micros = [draw.choice((1_000_003, 2_000_003)) for _ in POOLS]
                    self._write(end, price(end, market, micros))

    def _usage(self, minute: int, source: Source) -> None:
        draw = self.draw
        if minute > source.quiet_until and draw.random() < 0.02:
            source.quiet_from = minute
            source.quiet_until = minute + draw.choice(self.quiet_minutes)
        if minute < source.quiet_until:
            return
        if draw.random() < 0.02:
            source.attempt += 1
            source.seq = -1
        source.seq += draw.choice((1,) * 19 + (2,))
        # No other record crosses a multiple of five minutes.
        first = max(minute // 5 * 5, minute - draw.choice((0,) * 9 + (1,)))
        if minute == source.quiet_until:
            first = source.quiet_from
        start_ms, end_ms = first * MINUTE_MS, (minute + 1) * MINUTE_MS
        record = usage(
            source.lease,
            source.seq,
            start_ms,
            end_ms,
            node=source.node,
            attempt=source.attempt,
            job=f"job-{draw.randrange(4)}",
            market=draw.choice(("a", "a", "a", "b")),
            quantity_macc=draw.choice((1_000, 8_000, 64_001)),
            work_class=draw.choice((*(each.value for each in WorkClass), "market", "market")),
            billable=draw.random() < 0.93,
            limit_micro=draw.choice((None, None, 3_000_000)),
            tariff_ppm=draw.choice((PPM, PPM, 900_001)),
        )
        lag = draw.choice((0,) * 15 + (1, 3, 14, 25))
        for again in range(draw.choice((1,) * 9 + (2,))):
            self._write(minute + 1 + lag + again, record)

    def _trouble(self, minute: int) -> None:
        draw, start_ms, end_ms = self.draw, minute * MINUTE_MS, (minute + 1) * MINUTE_MS
        if draw.random() < 0.1:
            lease = draw.choice([*LEASES])
            wrong: dict[str, Any] = draw.choice(
                (
                    {"end_ms": START_MS + start_ms},
                    {"end_ms": START_MS + start_ms - 1},
                    {"start_ms": None},
                    {"start_ms": START_MS + end_ms - 86_400_001},
                    {"end_ms": START_MS + end_ms + 30 * MINUTE_MS},
                    {"quantity_macc": 0},
                    {"quantity_macc": "8"},
                    {"work_class": "vip"},
                    {"tariff_ppm": 10**12},
                    {"team": "stranger"},
                    {"pool": "stranger"},
                    {"market": "stranger"},
                    {"start_ms": START_MS - 5_000_000, "end_ms": START_MS - 4_900_000},
                )
            )
            record = usage(lease, minute, start_ms, end_ms, **{"node": "n9"} | wrong)
            self._write(minute + 1, record)
        if self.more.random() < 0.03:
            # More than amounts can say; in another partition than the team's; in a strange pool.
            record = usage("l1", minute, start_ms, end_ms, node=f"n{minute}")
            heavy = usage("l1", minute, start_ms, end_ms, node="n8", quantity_macc=MACC_MAX)
            astray = replace(record, partition=self.more.randrange(4))
            self._write(minute + 1, self.more.choice((heavy, astray)))
        if draw.random() < 0.05:
            # A number that was taken already, in other words; or one that contradicts its time.
            source = draw.choice(self.sources)
            seq, fields = source.seq, {"node": source.node, "attempt": source.attempt}
            other = usage(source.lease, seq, start_ms, end_ms, quantity_macc=77, **fields)
            self._write(minute + 2, other)
            later_ms = end_ms + MINUTE_MS
            jump = usage(source.lease, max(0, seq - 4), end_ms, later_ms, **fields)
            self._write(minute + draw.choice((2, 3)), jump)
        if draw.random() < 0.05:
            broken = usage("l1", 0, 0, 1)
            self._write(minute + 1, replace(broken, payload=draw.choice((b"\xff", b"[]", None))))
        if draw.random() < 0.06:
            lease, state = draw.choice([*LEASES]), draw.choice((*DrainState, DrainState.FAILED))
            warned_ms = max(0, start_ms - draw.choice((30_000, 90_000, 400_001)))
            lag = draw.choice((1, 1, 4, 40))
            self._write(minute + lag, drain(lease, warned_ms, end_ms, state, f"s{minute}"))
        if draw.random() < 0.02:
            version, boundary = minute + 2, minute // 5 * 5 + 10
            period = BillingPeriod.DAY if draw.random() < 0.2 else BillingPeriod.HOUR
            name = draw.choice([*POOLS])
            incomes = [draw.choice((0, 1, 11)) for _ in POOLS[name]]
            weight = draw.choice((0, 20_000_003))
            zone = self.more.choice(ZONES[name])
            budgets = drawn_budgets(self.more, POOLS[name])
            document = pool(name, incomes, weight=weight, period=period, zone=zone, budgets=budgets)
            self._write(minute, changed(document, version=version, minute=boundary))

    def _requests(self, world: MoneyWorld, minute: int) -> Iterator[Output]:
        """Let finance ask for something, sensible or not."""
        draw = random.Random(f"{self.seed}/{minute}")
        if minute < 50 or draw.random() > 0.2:
            return
        known = sorted(world.invoices(), key=_by_id)
        for invoice in draw.sample(known, min(2, len(known))):
            often = (InvoiceAction.APPROVE, InvoiceAction.RELEASE)
            action = draw.choice((*InvoiceAction, *often, *often))
            request = InvoiceRequested(invoice_id=invoice.invoice_id, action=action, reason="why")
            yield emit(request)


def _by_id(invoice: InvoicePublished) -> str:
    return invoice.invoice_id
