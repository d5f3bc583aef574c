"""A bill of a usage file: charge lines, totals by team, what was quarantined."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from walras.rate.reading import Prices, series_of
from walras_billing.prices import View
from walras_billing.rating import RATE_DENOMINATOR, charge_id, rated, round_half_even
from walras_billing.sources import UsageBook
from walras_billing.usage_faults import UsageFault
from walras_billing.usage_line import UsageLine, subtracted

Document = dict[str, Any]
EVERYTHING = View(0)
BEFORE_ALL_MS, AFTER_ALL_MS = -1, 2**62


@dataclass(frozen=True, slots=True)
class Window:
    """The half-open window that is billed; None: open on that side."""

    from_ms: int | None = None
    to_ms: int | None = None

    def clip(self, line: UsageLine) -> None:
        """Take what lies outside the window out of what is charged of a line."""
        spans = line.spans()
        if self.from_ms is not None:
            spans = subtracted(spans, BEFORE_ALL_MS, self.from_ms)
        if self.to_ms is not None:
            spans = subtracted(spans, self.to_ms, AFTER_ALL_MS)
        line.net = spans


@dataclass(slots=True)
class Total:
    """What a team owes, and how much of its use waits for a price."""

    numerator: int = 0
    pending_macc_ms: int = 0

    def document(self) -> Document:
        """Return it as it is printed."""
        return {
            "amount_micro": round_half_even(self.numerator, RATE_DENOMINATOR),
            "pending_macc_ms": self.pending_macc_ms,
        }


@dataclass(slots=True)
class Bill:
    """A bill under way. The order in which lines are taken, and repetitions, change nothing.

    Of two lines with one source and number but different bodies, the first of the file counts.
    """

    prices: Prices
    window: Window
    quarantined: dict[int, UsageFault] = field(default_factory=dict)
    missing: int = 0
    """Sequence numbers that were passed over."""
    _totals: dict[str, Total] = field(default_factory=dict)

    def quarantine(self, number: int, fault: UsageFault) -> None:
        """Note that a line of the file is not charged, or not wholly."""
        self.quarantined.setdefault(number, fault)

    def carried_in(self, lines: list[tuple[int, UsageLine]]) -> Iterator[Document]:
        """Yield the price of every pool that is in force at the window's start.

        Null where it is unknown: none was told yet, the last one says so, or it is too old.
        """
        at_ms = self.window.from_ms
        if at_ms is None:
            return
        pools = dict(self.prices.pools)
        ages = {line.max_age_ms for _, line in lines}
        max_age_ms = ages.pop() if ages else None
        for _, line in lines:
            pools[line.terms.series] = (line.terms.market, line.terms.pool)
        for market, pool in sorted(pools.values()):
            series, history = series_of(market, pool), self.prices.history
            instant = (at_ms, at_ms + 1)
            (segment,) = history.segments(series, pool, instant, EVERYTHING, max_age_ms)
            try:
                since_ms, _ = history.in_force(series, pool, at_ms, EVERYTHING)
            except LookupError:
                since_ms = None
            yield {
                "market": market,
                "pool": pool,
                "effective_ms": since_ms,
                "price_micro": segment.price_micro,
                "carried_in": True,
            }

    def charges(self, lines: list[tuple[int, UsageLine]]) -> Iterator[Document]:
        """Yield the charge lines, by team, lease, source, number and time."""
        for line in sorted(self._accepted(lines), key=_by_team):
            self.window.clip(line)
            total = self._totals.setdefault(line.terms.team, Total())
            (step,) = rated(line, self.prices.history, 0)
            amounts = {charge.start_ms: charge.amount_numerator for charge in step.lines}
            for piece in step.pieces:
                amount = amounts.get(piece.start_ms, 0)
                total.numerator += amount
                if piece.price_micro is None:
                    length_ms = piece.end_ms - piece.start_ms
                    total.pending_macc_ms += line.terms.quantity_macc * length_ms
                yield {
                    "charge_id": charge_id(line.terms.source, line.seq, piece.start_ms),
                    "lease": line.terms.lease,
                    "team": line.terms.team,
                    "pool": line.terms.pool,
                    "market": line.terms.market,
                    "quantity_macc": line.terms.quantity_macc,
                    "start_ms": piece.start_ms,
                    "end_ms": piece.end_ms,
                    "price_micro": piece.price_micro,
                    "state": "rated" if piece.price_micro is not None else "price_pending",
                    "amount_numerator": amount,
                }

    def totals(self) -> Document:
        """Return the last line, once all others were yielded."""
        return {
            "totals": {team: self._totals[team].document() for team in sorted(self._totals)},
            "quarantined": [
                {"line": number, "code": self.quarantined[number].value}
                for number in sorted(self.quarantined)
            ],
        }

    def _accepted(self, lines: list[tuple[int, UsageLine]]) -> list[UsageLine]:
        book = UsageBook()
        numbers = {line: number for number, line in lines}
        refused: dict[tuple[str, int], list[UsageLine]] = {}
        for number, line in sorted(lines, key=_by_number):
            taken = book.take(line, 0, BEFORE_ALL_MS)
            if taken.fault is not None:
                known = refused.setdefault((line.terms.source, line.seq), [])
                if not any(line.says_the_same(other) for other in known):
                    known.append(line)
                    self.quarantine(number, taken.fault.code)
            for loser, _ in taken.overlaps:
                self.quarantine(numbers[loser], UsageFault.OVERLAP)
        self.missing = sum(
            end - first for source in book.sources.values() for first, end in source.missing
        )
        return [*book.lines()]


def _by_number(numbered: tuple[int, UsageLine]) -> tuple[str, int, int]:
    number, line = numbered
    return line.terms.source, line.seq, number


def _by_team(line: UsageLine) -> tuple[str, str, str, int]:
    return line.terms.team, line.terms.lease, line.terms.source, line.seq
