"""Random histories of charges and of what finance asks, and the check of what must always hold."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from services.invoicing.tests.invoicing_bench import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    UNITS,
    Bench,
    ask,
    charge,
    credit,
    payables_micro,
    pending,
    pool,
    rejected_late,
)
from walras_contracts.accounts import BillingPeriod
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceState
from walras_contracts.registry import decode_inner
from walras_contracts.work import WorkClass
from walras_runtime.records import Output

POOLS = ("p", "q")
TEAMS = ("t1", "t2", "t3")
ACTIONS = tuple(InvoiceAction)
LENGTHS_MS = (1000, 2 * HOUR_MS, DAY_MS)
"""Of charges and credits: within a period, over a border, over many."""


@dataclass
class Story:
    """What comes in each step, drawn from a seed; requests name invoices by what is known then.

    The invoices that a step may name are those of a bench that lives through it first, so that
    other benches can live through the very same records.
    """

    seed: int
    steps: int = 40
    given: list[tuple[int, list[Output]]] = field(default_factory=list)
    corrected: int = 0
    """How many corrections came."""
    _priced: list[dict[str, Any]] = field(default_factory=list)
    """Parts of charges that a later correction may name, as they stand."""

    def live(self) -> Bench:
        """Write the story while a bench lives through it; return the bench."""
        chooser = random.Random(self.seed)
        bench = Bench()
        at_ms = 0
        self._step(bench, 0, [*_documents(chooser)])
        for _ in range(self.steps):
            at_ms += chooser.choice((MINUTE_MS, 20 * MINUTE_MS, HOUR_MS, 7 * HOUR_MS))
            known = sorted(bench.latest())
            given = [_line(chooser, at_ms) for _ in range(chooser.randrange(5))]
            given += self._corrected(chooser, at_ms)
            if known and chooser.random() < 0.5:
                asked = bench.latest()[chooser.choice(known)]
                given.append(ask(asked, chooser.choice(ACTIONS), "why"))
            self._step(bench, at_ms, given)
        return bench

    def relive(self, bench: Bench, shuffle: random.Random | None = None) -> Bench:
        """Let another bench live through it; ``shuffle`` changes the order within steps."""
        for at_ms, given in self.given:
            outputs = [*given]
            if shuffle is not None:
                # What finance asks, and prices that wait, are in one partition, in their order.
                free = [o for o in outputs if o.topic == "charges"]
                shuffle.shuffle(free)
                outputs = [*free, *(o for o in outputs if o.topic != "charges")]
            bench.step(at_ms, *outputs)
        return bench

    def _corrected(self, chooser: random.Random, at_ms: int) -> list[Output]:
        """Return a new charge by its price, or a correction of a part of one of an earlier step."""
        if self._priced and chooser.random() < 0.5:
            told = chooser.choice(self._priced)
            self._priced.remove(told)
            start_ms, end_ms = told["start_ms"], told["start_ms"] + told["length_ms"]
            first_ms, behind_ms = start_ms, end_ms
            if chooser.random() < 0.5:
                first_ms = chooser.randrange(start_ms, end_ms)
                behind_ms = chooser.randrange(first_ms, end_ms) + 1
            for rest in ((start_ms, first_ms), (behind_ms, end_ms)):
                if rest[0] < rest[1]:
                    self._priced.append(told | _span(*rest))
            price = chooser.choice((None, 0, chooser.randrange(10**9)))
            self.corrected += 1
            part = told | _span(first_ms, behind_ms)
            if price is not None:
                self._priced.append(part | {"price": price})
            return [
                charge(**(part | {"price": price, "previous": told["price"], "corrects": True}))
            ]
        told = {
            "start_ms": max(0, at_ms - chooser.choice((MINUTE_MS, 3 * HOUR_MS))),
            "numerator": 0,
            "price": chooser.choice((0, chooser.randrange(1, 10**9))),
            "macc": 1000,
            "length_ms": chooser.choice(LENGTHS_MS),
            "team": chooser.choice(TEAMS),
            "of_pool": chooser.choice(POOLS),
        }
        self._priced.append(told)
        return [charge(**told)]

    def _step(self, bench: Bench, at_ms: int, given: list[Output]) -> None:
        self.given.append((at_ms, given))
        check_step(bench, bench.step(at_ms, *given), at_ms, self.given)


def check_step(
    bench: Bench,
    published: list[InvoicePublished],
    at_ms: int,
    given: list[tuple[int, list[Output]]],
) -> None:
    """Check that the invoices add up to the charges, and the pools' to their teams'."""
    exact = totals(given)
    latest = bench.latest()
    for owner in sorted({(e.pool, e.team) for e in published if e.team is not None}):
        held = [e for e in latest.values() if (e.pool, e.team) == owner]
        counted = [e for e in held if e.state is not InvoiceState.VOIDED]
        used, credited = exact[owner]
        assert sum(int(e.amount_numerator) for e in counted) == used + credited, owner
        due_micro = round(Fraction(used, UNITS)) + round(Fraction(credited, UNITS))
        assert payables_micro(held) == due_micro, owner
    hours = [START_MS + at for at, _ in given[-2:]]
    is_hourly = len(hours) == 1 or hours[1] // HOUR_MS > hours[0] // HOUR_MS
    for (name, team, start_ms), of_pool in latest.items():
        if team or not (is_hourly or of_pool.state is not InvoiceState.DRAFT):
            continue
        teams = [e for (p, t, s), e in latest.items() if t and (p, s) == (name, start_ms)]
        if of_pool.state is not InvoiceState.VOIDED:
            teams = [e for e in teams if e.state is not InvoiceState.VOIDED]
        assert of_pool.payable_micro == sum(e.payable_micro for e in teams), (name, start_ms, at_ms)
        assert int(of_pool.amount_numerator) == sum(int(e.amount_numerator) for e in teams)
        assert sum(e.charges for e in of_pool.lines) == sum(
            line.charges for e in teams for line in e.lines
        )


def totals(
    given: list[tuple[int, list[Output]]],
) -> dict[tuple[str, str | None], tuple[int, int]]:
    """Return what each team in a pool used and was credited, exactly, from the records alone."""
    sums: dict[tuple[str, str | None], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for _, outputs in given:
        for output in outputs:
            if output.topic == "charges" and output.payload is not None:
                event = decode_inner(output.type, output.payload)
                assert isinstance(event, ChargeRated | ChargeCredited)
                used, credited = sums[event.pool, event.team]
                amount = int(event.amount_numerator)
                if isinstance(event, ChargeRated):
                    used += amount
                else:
                    credited += amount
                sums[event.pool, event.team] = (used, credited)
    return sums


def _documents(chooser: random.Random) -> Iterator[Output]:
    for name in POOLS:
        kind = chooser.choice((BillingPeriod.HOUR, BillingPeriod.DAY))
        terms: dict[str, Any] = {
            "grace_ms": chooser.choice((0, HOUR_MS)),
            "approval": chooser.random() < 0.3,
        }
        yield pool(name=name, period=kind, **terms)
        if chooser.random() < 0.5:
            yield pool(
                name=name, version=2, at_ms=9 * HOUR_MS, period=kind, zone="Asia/Kolkata", **terms
            )


def _span(start_ms: int, end_ms: int) -> dict[str, Any]:
    return {"start_ms": start_ms, "length_ms": end_ms - start_ms}


def _line(chooser: random.Random, at_ms: int) -> Output:
    start_ms = max(0, at_ms - chooser.choice((1, MINUTE_MS, 3 * HOUR_MS, DAY_MS)))
    owner: dict[str, Any] = {"team": chooser.choice(TEAMS), "of_pool": chooser.choice(POOLS)}
    kind = chooser.randrange(9)
    part = chooser.randrange(1, UNITS)
    if kind == 0:
        length_ms = chooser.choice(LENGTHS_MS)
        return credit(start_ms, -part * length_ms, length_ms=length_ms, **owner)
    if kind == 1:
        return charge(start_ms, 0, price=0, work_class=WorkClass.OPPORTUNISTIC, **owner)
    if kind == 2:
        length_ms, ended = chooser.choice(LENGTHS_MS), chooser.random() < 0.5
        return pending(start_ms, chooser.randrange(1, 9), length_ms=length_ms, ended=ended)
    if kind == 3:
        return rejected_late(chooser.randrange(9))
    # Amounts near a half of a µcr: rounding shows.
    numerator = chooser.choice((part, UNITS // 2, 7 * UNITS // 10, 3 * UNITS + part))
    return charge(start_ms, numerator, job=chooser.choice("ab"), **owner)
