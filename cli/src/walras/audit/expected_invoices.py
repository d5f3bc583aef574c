"""What the invoices of a team must say, from its charge lines and from when invoices were voided.

A charge is cut at the borders of periods; each part belongs to its own. Up to the step in which a
period is due its charges change the draft; what comes later is a correction on the invoice of the
period that is running. A voided invoice's lines go there too, as they are. An invoice that has too
many lines after a step leaves something out of them from then on.

What a correction takes back from a draft is on it: its charge came before and was placed by the
same calendar (:mod:`walras.audit.invoice_periods`). Invoicing has a rule for drafts that lack it,
which nothing that billing charges can reach.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from walras.audit.charge_parts import Part, parts_of
from walras.audit.invoice_periods import InvoicePeriods, Period
from walras.audit.report import rounded_micro
from walras.audit.rows import RATED, Line
from walras.audit.steps import Clock
from walras_contracts.identifiers import digest_of
from walras_contracts.invoices import LINES_MAX

USAGE, CORRECTION, CREDIT, UNBILLED = "usage", "correction", "credit", "unbilled"
OF_TEAM: Final = ("price_micro", "job", "period_start_ms", "work_class", "market")
"""What the lines of a team's invoice leave out, one after the other, until they are few enough."""
OF_POOL: Final = ("price_micro", "job", "team", "period_start_ms", "work_class", "market")


class LineKey(NamedTuple):
    """What the charges of an invoice line have in common; None: left out, or there is none."""

    kind: str
    team: str | None
    job: str | None
    market: str | None
    work_class: str | None
    price_micro: int | None
    period_start_ms: int | None


@dataclass(slots=True)
class Sums:
    """What an invoice line sums up."""

    first_ms: int
    last_ms: int
    macc_ms: int
    charges: int
    numerator: int


Lines = dict[LineKey, Sums]


class Exact(NamedTuple):
    """An exact sum: charges and their corrections, and credits, as the ledger has them apart."""

    used: int = 0
    credited: int = 0

    def plus(self, other: "Exact", sign: int = 1) -> "Exact":
        """Return the sum of two, or their difference."""
        return Exact(self.used + sign * other.used, self.credited + sign * other.credited)

    @property
    def micro(self) -> int:
        """Return it in µcr, rounded as the ledger rounds it."""
        return rounded_micro(self.used) + rounded_micro(self.credited)


def exact_sum(lines: Iterable[tuple[LineKey, Sums]]) -> Exact:
    """Return the exact sum of lines."""
    total = Exact()
    for key, line in lines:
        is_credit = key.kind == CREDIT
        total = total.plus(Exact(0, line.numerator) if is_credit else Exact(line.numerator, 0))
    return total


@dataclass(slots=True)
class Content:
    """The lines of an invoice; a team's leave out the first ``detail`` names, for good."""

    invoice_id: str
    period: Period
    lines: Lines = field(default_factory=dict)
    rejected_late_macc_ms: int = 0
    detail: int = 0

    @property
    def exact(self) -> "Exact":
        """Return the exact sum of the lines."""
        return exact_sum(self.lines.items())

    @property
    def is_due_anything(self) -> bool:
        """Whether an amount could stand on a line."""
        return any(key.kind != UNBILLED for key in self.lines)


def invoice_id(scope: str, pool: str, team: str, period: Period) -> str:
    """Return the id of an invoice; ``team`` is empty for a pool's."""
    return digest_of("invoice", scope, pool, team, period.kind, period.zone, str(period.start_ms))


def add_line(lines: Lines, key: LineKey, line: Sums) -> None:
    """Add sums to those of a key; what comes to nothing goes."""
    held = lines.get(key)
    if held is None:
        lines[key] = replace(line)
        return
    held.first_ms = min(held.first_ms, line.first_ms)
    held.last_ms = max(held.last_ms, line.last_ms)
    held.macc_ms += line.macc_ms
    held.charges += line.charges
    held.numerator += line.numerator
    if not held.macc_ms and not held.numerator:
        del lines[key]


def coarse(key: LineKey, left_out: tuple[str, ...]) -> LineKey:
    """Return a key with something left out of it."""
    nothing: dict[str, Any] = dict.fromkeys(left_out)
    return key._replace(**nothing) if nothing else key


def few_enough(lines: Lines, detail: int, names: tuple[str, ...]) -> tuple[Lines, int]:
    """Return lines that leave out more until there are few enough, and how much they leave out.

    Parameters
    ----------
    lines
        Lines that leave out the first so many names.
    detail
        How many they leave out.
    names
        What can be left out, in order: `OF_TEAM` or `OF_POOL`.
    """
    while len(lines) > LINES_MAX and detail < len(names):
        detail += 1
        finer, lines = lines, {}
        for key, line in finer.items():
            add_line(lines, coarse(key, names[:detail]), line)
    return lines, detail


class TeamInvoices:
    """The invoices of one team in one pool, step by step.

    Parameters
    ----------
    account
        Team and pool.
    periods
        The pool's calendar.
    clock
        When the steps were.
    """

    def __init__(self, account: tuple[str, str], periods: InvoicePeriods, clock: Clock) -> None:
        self._team, self._pool = account
        self._periods = periods
        self._clock = clock
        self.invoices: dict[str, Content] = {}
        self._grown: dict[str, Content] = {}
        """Those that got something in the step that is under way."""

    def step(
        self,
        number: int,
        charges: Iterable[Line],
        rejected: Sequence[int],
        voided: Iterable[str],
    ) -> None:
        """Take what a step brought: charges, use that came too late, invoices that were voided."""
        for line in charges:
            take = self._rated if line.kind == RATED else self._credited
            for part in parts_of(line, self._periods):
                take(number, line, part)
        for macc_ms in rejected:
            self._running(number).rejected_late_macc_ms += macc_ms
        for name in voided:
            if name in self.invoices:
                self._void(number, self.invoices[name])
        for content in self._grown.values():
            content.lines, content.detail = few_enough(content.lines, content.detail, OF_TEAM)
        self._grown.clear()

    def _place(self, number: int, period: Period) -> tuple[Content, bool]:
        closed_ms = self._clock.times_ms[number - 1] if number else -1
        if period.due_ms <= closed_ms:
            return self._running(number), True
        return self._content(period), False

    def _running(self, number: int) -> Content:
        return self._content(self._periods.of(self._pool, self._clock.times_ms[number]))

    def _content(self, period: Period) -> Content:
        name = invoice_id("team", self._pool, self._team, period)
        held = self.invoices.get(name)
        if held is None:
            held = self.invoices[name] = Content(name, period)
        return held

    def _rated(self, number: int, line: Line, part: Part) -> None:
        content, is_late = self._place(number, part.period)
        price, previous = line.get("price_micro"), line.get("previous_price_micro")
        work_class = line.get("work_class")
        is_free = work_class == "opportunistic" or not line.get("billable")
        kind = UNBILLED if is_free and not (price or previous) else USAGE
        span = part.start_ms, part.end_ms
        macc_ms = line.get("quantity_macc") * (part.end_ms - part.start_ms)
        key = LineKey(
            *(kind, self._team, line.get("job"), line.get("market"), work_class, price),
            part.period.start_ms,
        )
        if is_late:
            if kind == USAGE or price is None:
                key = key._replace(kind=CORRECTION, price_micro=None)
            self._add(content, key, Sums(*span, macc_ms, part.charges, part.numerator))
            return
        unit = line.get("tariff_ppm") * macc_ms
        if price is not None:
            self._add(content, key, Sums(*span, macc_ms, part.charges, price * unit))
        if previous is not None:
            key = key._replace(price_micro=previous)
            self._add(content, key, Sums(*span, -macc_ms, 0, -previous * unit))

    def _credited(self, number: int, line: Line, part: Part) -> None:
        content, _ = self._place(number, part.period)
        macc_ms = line.get("quantity_macc") * (part.end_ms - part.start_ms)
        job, market, from_ms = line.get("job"), line.get("market"), part.period.start_ms
        key = LineKey(CREDIT, self._team, job, market, "market", None, from_ms)
        sums = Sums(part.start_ms, part.end_ms, macc_ms, part.charges, part.numerator)
        self._add(content, key, sums)

    def _void(self, number: int, voided: Content) -> None:
        running = self._running(number)
        for key, line in sorted(voided.lines.items(), key=_by_key):
            kind = CORRECTION if key.kind == USAGE else key.kind
            price = key.price_micro if kind == UNBILLED else None
            self._add(running, key._replace(kind=kind, price_micro=price), line)

    def _add(self, content: Content, key: LineKey, sums: Sums) -> None:
        add_line(content.lines, coarse(key, OF_TEAM[: content.detail]), sums)
        self._grown[content.invoice_id] = content


def _by_key(entry: tuple[LineKey, Sums]) -> tuple[str, ...]:
    return tuple("" if part is None else str(part) for part in entry[0])
