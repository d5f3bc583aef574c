"""The lines of an invoice: sums of charges that share everything but their times.

Their number is bounded: an invoice that would have too many leaves out names, one after the other
in a fixed order, until only the kind of a line is left. Of those there are four.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from walras_contracts.invoices import LINES_MAX, InvoiceLine, InvoiceLineKind
from walras_contracts.work import WorkClass
from walras_invoicing.rounding import rounded_micro, shared_out
from walras_runtime.errors import InvariantBrokenError

NONE: Final = "-"
"""Stands in texts for what is not there: no id begins with it."""
TEAM_ORDER: Final = ("price_micro", "job", "period_start_ms", "work_class", "market")
"""What the lines of a team's invoice leave out, first to last; all of them are that team's."""
POOL_ORDER: Final = ("price_micro", "job", "team", "period_start_ms", "work_class", "market")
_KINDS: Final = [kind.value for kind in InvoiceLineKind]


class LineKey(NamedTuple):
    """What the charges of a line share; kinds and classes by their values. None: left out."""

    kind: str
    team: str | None
    job: str | None
    market: str | None
    work_class: str | None
    price_micro: int | None
    period_start_ms: int | None

    def text(self) -> str:
        """Return the key as part of a key of the state topic."""
        return "/".join(NONE if part is None else str(part) for part in self)

    @staticmethod
    def parse(text: str) -> "LineKey":
        """Read :meth:`text`."""
        kind, *parts = text.split("/")
        team, job, market, work_class, *numbers = [None if p == NONE else p for p in parts]
        price, start = [None if n is None else int(n) for n in numbers]
        return LineKey(kind, team, job, market, work_class, price, start)

    def without(self, names: tuple[str, ...]) -> "LineKey":
        """Return the key that is left when some names are left out."""
        nothing: dict[str, Any] = dict.fromkeys(names)
        return self._replace(**nothing) if nothing else self


@dataclass(slots=True)
class Line:
    """The sums of a line."""

    first_ms: int
    last_ms: int
    macc_ms: int = 0
    charges: int = 0
    numerator: int = 0

    def add(self, other: "Line") -> None:
        """Take another line into this one."""
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)
        self.macc_ms += other.macc_ms
        self.charges += other.charges
        self.numerator += other.numerator

    def dump(self) -> bytes:
        """Return the line as a record of the state topic."""
        sums = [self.first_ms, self.last_ms, self.macc_ms, self.charges, self.numerator]
        return json.dumps(sums, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Line":
        """Read :meth:`dump`."""
        return Line(*json.loads(value))


@dataclass(slots=True)
class LineBook:
    """The lines of one invoice.

    Their keys leave out the first ``detail`` names of ``order``; ``touched`` names the keys that
    changed since they were written to the state topic.
    """

    detail: int = 0
    order: tuple[str, ...] = TEAM_ORDER
    lines: dict[LineKey, Line] = field(default_factory=dict)
    numerator: int = 0
    """Exact sum of the lines."""
    credit_numerator: int = 0
    """Exact sum of its credits alone."""
    touched: dict[LineKey, None] = field(default_factory=dict)

    def coarse(self, key: LineKey) -> LineKey:
        """Return the key of the line that charges of a key are on."""
        return key.without(self.order[: self.detail])

    def holds(self, key: LineKey, macc_ms: int) -> bool:
        """Whether the line of a key has so much use that can be taken back."""
        held = self.lines.get(self.coarse(key))
        return held is not None and held.macc_ms >= macc_ms

    def add(self, key: LineKey, line: Line) -> None:
        """Add sums, which may be negative, to the line of a key; an emptied one goes.

        Raises
        ------
        InvariantBrokenError
            A correction came before what it corrects.
        """
        key = self.coarse(key)
        held = self.lines.get(key)
        if held is None:
            held = self.lines[key] = Line(line.first_ms, line.last_ms)
        held.add(line)
        if held.macc_ms < 0:
            raise InvariantBrokenError(f"more was taken back than charged: {key.text()}")
        if not held.macc_ms and not held.numerator:
            del self.lines[key]
        self._count(key, line)
        self.touched[key] = None

    def _count(self, key: LineKey, line: Line) -> None:
        self.numerator += line.numerator
        if key.kind == InvoiceLineKind.CREDIT.value:
            self.credit_numerator += line.numerator

    def bound(self) -> bool:
        """Leave out more until there are few enough lines; tell whether it was needed."""
        before = self.detail
        while len(self.lines) > LINES_MAX and self.detail < len(self.order):
            self.detail += 1
            held, self.lines = self.lines, {}
            self.touched.update(dict.fromkeys(held))
            self.numerator = self.credit_numerator = 0
            for key, line in held.items():
                self.add(key, line)
        return self.detail != before

    def ordered(self) -> list[tuple[LineKey, Line]]:
        """Return the lines by their keys."""
        return sorted(self.lines.items(), key=_by_key)

    def load(self, key: str, value: bytes) -> None:
        """Take back a line from the state topic."""
        line, name = Line.parse(value), LineKey.parse(key)
        self.lines[name] = line
        self._count(name, line)

    def take_changes(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield what changed, by key, and forget that it did."""
        for key in sorted(self.touched, key=LineKey.text):
            line = self.lines.get(key)
            yield key.text(), None if line is None else line.dump()
        self.touched.clear()


def _by_key(entry: tuple[LineKey, Line]) -> tuple[int, str, str, str, str, int, int]:
    key = entry[0]
    return (
        _KINDS.index(key.kind),
        key.team or "",
        key.job or "",
        key.market or "",
        key.work_class or "",
        -1 if key.period_start_ms is None else key.period_start_ms,
        -1 if key.price_micro is None else key.price_micro,
    )


def carries(lines: Iterable[LineKey]) -> bool:
    """Whether there is a line that an amount could stand on: unbilled use costs nothing."""
    return any(key.kind != InvoiceLineKind.UNBILLED.value for key in lines)


def amounts_micro(lines: list[tuple[LineKey, Line]], payable_micro: int) -> list[int]:
    """Return the whole amounts of lines, which sum to what is payable.

    Credits are rounded by themselves, half to even; the others share out the rest by largest
    remainder. Lines of no amount get none, and credits carry a part of the rest only where nothing
    else is there.
    """
    numerators = [line.numerator for _, line in lines]
    credit = [key.kind == InvoiceLineKind.CREDIT.value for key, _ in lines]
    unbilled = [key.kind == InvoiceLineKind.UNBILLED.value for key, _ in lines]
    places = range(len(lines))
    choices = (
        [at for at in places if numerators[at] and not credit[at] and not unbilled[at]],
        [at for at in places if not credit[at] and not unbilled[at]],
        [at for at in places if credit[at]],
    )
    carriers = next((choice for choice in choices if choice), [])
    amounts = [rounded_micro(numerator) for numerator in numerators]
    if carriers:
        others_micro = sum(amounts) - sum(amounts[at] for at in carriers)
        rest = payable_micro - others_micro
        shares = shared_out(rest, [numerators[at] for at in carriers])
        for at, share in zip(carriers, shares, strict=True):
            amounts[at] = share
    return amounts


def as_events(lines: list[tuple[LineKey, Line]], amounts: list[int]) -> tuple[InvoiceLine, ...]:
    """Return lines as an invoice shows them."""
    return tuple(
        InvoiceLine(
            kind=InvoiceLineKind(key.kind),
            team=key.team,
            job=key.job,
            market=key.market,
            work_class=None if key.work_class is None else WorkClass(key.work_class),
            price_micro=key.price_micro,
            period_start_ms=key.period_start_ms,
            first_ms=line.first_ms,
            last_ms=line.last_ms,
            macc_ms=str(line.macc_ms),
            charges=line.charges,
            amount_numerator=str(line.numerator),
            amount_micro=amount,
        )
        for (key, line), amount in zip(lines, amounts, strict=True)
    )
