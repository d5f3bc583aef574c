"""What use costs: exact integers, cut at price changes, a function of usage and prices (design §6).

A line is charged first at the prices known by the first barrier at or after ``until_ms``, however
late the line itself comes; from then on, whatever became known later in the order of the log gives
corrections. So equal usage and prices give equal lines in whatever order and step they are rated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from walras_billing.prices import NO_BARRIER, PriceHistory, View
from walras_billing.usage_line import Span, UsageLine, subtracted
from walras_contracts.charges import ChargeReason

RATE_DENOMINATOR: Final = 1000 * 1_000_000 * 3_600_000
"""Numerators are price_micro × tariff_ppm × macc × ms; this many make one µcr (3.6·10¹⁵)."""


@dataclass(slots=True)
class ChargeLine:
    """A charge of a part of a usage line, or a correction of one.

    Prices are what is charged, so at most the limit; None: nothing is, or can be. Nobody changes a
    line; a frozen one takes several times as long to make.
    """

    charge_id: str
    corrects: str | None
    reason: ChargeReason
    start_ms: int
    end_ms: int
    price_micro: int | None
    previous_price_micro: int | None
    price_barrier: int
    amount_numerator: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a usage line as it is charged so far; ``charge_id`` None: it never was."""

    start_ms: int
    end_ms: int
    price_micro: int | None
    charge_id: str | None


@dataclass(frozen=True, slots=True)
class Rated:
    """What a usage line owes from the step of a barrier on: its pieces, and the lines just made."""

    barrier: int
    pieces: tuple[Piece, ...]
    lines: tuple[ChargeLine, ...]


def charge_id(source: str, seq: int, start_ms: int) -> str:
    """Return the id of the charge of a source's record from an instant on.

    BLAKE2b of 16 bytes, in hex, of ``seq/start_ms/source``; personalised ``walras.charge``.
    """
    return digest(b"walras.charge", f"{seq}/{start_ms}/{source}")


def correction_id(corrected: str, barrier: int, start_ms: int) -> str:
    """Return the id of the correction of a charge from an instant on, by what a barrier brought.

    BLAKE2b of 16 bytes, in hex, of ``barrier/start_ms/charge id``; personalised ``walras.correct``.
    """
    return digest(b"walras.correct", f"{barrier}/{start_ms}/{corrected}")


def rated(line: UsageLine, prices: PriceHistory, barrier: int) -> Iterator[Rated]:
    """Yield what a usage line is charged, first and after each change up to a barrier.

    Parameters
    ----------
    line
        The usage; opportunistic and unbillable use is charged 0 even without a price.
    prices
        All that is known; what the line may not know yet is left out step by step.
    barrier
        The last step that counts.

    Notes
    -----
    Amounts are linear in time: cutting a line anywhere leaves their sum as it is.
    """
    first = _first(line, prices)
    yield first
    changes = {cut.barrier for cut in line.cuts}
    if not line.terms.is_free:
        for span in line.spans():
            changes |= prices.later_barriers(line.terms.series, span, line.until_ms)
    pieces = first.pieces
    for number in sorted(changes):
        if number <= barrier:
            change = _Change(line, prices, number)
            pieces = change.of(pieces)
            yield Rated(number, pieces, tuple(change.lines))


def _first(line: UsageLine, prices: PriceHistory) -> Rated:
    pieces: list[Piece] = []
    lines: list[ChargeLine] = []
    for span in line.spans():
        for start_ms, end_ms, price, barrier in _charged(line, prices, span, View(line.until_ms)):
            piece, charge = _opened(line, start_ms, end_ms, price, barrier)
            pieces.append(piece)
            lines += charge
    return Rated(NO_BARRIER, tuple(pieces), tuple(lines))


def _charged(
    line: UsageLine, prices: PriceHistory, span: Span, view: View
) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the parts of a span with what is charged over each, and since which barrier."""
    terms = line.terms
    if terms.is_free:
        yield *span, 0, NO_BARRIER
        return
    limit = terms.limit_micro
    for segment in prices.segments(terms.series, terms.pool, span, view, line.max_age_ms):
        price = segment.price_micro
        if price is not None and limit is not None:
            price = min(price, limit)
        yield segment.start_ms, segment.end_ms, price, segment.barrier


def _opened(
    line: UsageLine, start_ms: int, end_ms: int, price: int | None, barrier: int
) -> tuple[Piece, Sequence[ChargeLine]]:
    """Charge a part for the first time, unless its price is unknown: never a guess."""
    if price is None:
        return Piece(start_ms, end_ms, None, None), ()
    name = charge_id(line.terms.source, line.seq, start_ms)
    amount = price * weight(line) * (end_ms - start_ms)
    charge = ChargeLine(
        name, None, ChargeReason.USAGE, start_ms, end_ms, price, None, barrier, amount
    )
    return Piece(start_ms, end_ms, price, name), (charge,)


class _Change:
    """What the step of a barrier changes in the pieces of a line."""

    def __init__(self, line: UsageLine, prices: PriceHistory, barrier: int) -> None:
        self.lines: list[ChargeLine] = []
        self._line = line
        self._prices = prices
        self._barrier = barrier
        self._view = View(line.until_ms, barrier)
        self._cuts = [cut for cut in line.cuts if cut.barrier == barrier]

    def of(self, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Return the pieces after the change."""
        return tuple(piece for before in pieces for piece in self._pieces(before))

    def _pieces(self, before: Piece) -> Iterator[Piece]:
        whole = (before.start_ms, before.end_ms)
        kept: tuple[Span, ...] = (whole,)
        for cut in self._cuts:
            kept = subtracted(kept, cut.start_ms, cut.end_ms)
        taken: tuple[Span, ...] = (whole,)
        for span in kept:
            taken = subtracted(taken, *span)
        for span in taken:
            self._correct(before, span, None, NO_BARRIER, ChargeReason.OVERLAP)
        for span in kept:
            for start_ms, end_ms, price, barrier in _charged(
                self._line, self._prices, span, self._view
            ):
                yield self._piece(before, (start_ms, end_ms), price, barrier)

    def _piece(self, before: Piece, span: Span, price: int | None, barrier: int) -> Piece:
        if before.charge_id is None:
            piece, lines = _opened(self._line, *span, price, barrier)
            self.lines += lines
            return piece
        if price != before.price_micro:
            self._correct(before, span, price, barrier, ChargeReason.LATE_PRICE)
        return Piece(*span, price, before.charge_id)

    def _correct(
        self, before: Piece, span: Span, price: int | None, barrier: int, reason: ChargeReason
    ) -> None:
        if before.charge_id is None:
            return
        start_ms, end_ms = span
        difference = (price or 0) - (before.price_micro or 0)
        self.lines.append(
            ChargeLine(
                correction_id(before.charge_id, self._barrier, start_ms),
                before.charge_id,
                reason,
                start_ms,
                end_ms,
                price,
                before.price_micro,
                barrier,
                difference * weight(self._line) * (end_ms - start_ms),
            )
        )


def weight(line: UsageLine) -> int:
    """Return the numerator of a line per ms and unit of price."""
    return line.terms.tariff_ppm * line.terms.quantity_macc


def digest(person: bytes, text: str) -> str:
    """Return 16 bytes of BLAKE2b in hex, as the ids of all lines are made."""
    return blake2b(text.encode(), digest_size=16, person=person).hexdigest()


def round_half_even(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded to the nearest integer, halves to the even one."""
    return rounded_and_truncated(numerator, denominator)[0]


def rounded_and_truncated(numerator: int, denominator: int) -> tuple[int, int]:
    """Return numerator / denominator rounded, halves to the even one, and without its fraction.

    The denominator is positive.
    """
    floor, rest = divmod(numerator, denominator)
    if not rest:
        return floor, floor
    doubled = 2 * rest
    is_up = doubled > denominator or (doubled == denominator and floor & 1)
    return floor + 1 if is_up else floor, floor if numerator > 0 else floor + 1
