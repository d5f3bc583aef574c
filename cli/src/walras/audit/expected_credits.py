"""The credits that must be: for failed drains, and for records behind which numbers never came.

What was charged by the step that knows of a failed drain is given back charge by charge,
corrections included; each later line of that time is followed by a credit of its own. A gap gives
back the record before it, less what drains gave back of it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from walras.audit.expected_charges import Piece, Rated, Rating, digest
from walras.audit.failed_drains import GivenBack
from walras.audit.rows import CREDITED, Line, Span, Use, without

DRAIN: Final = "drain_failed"
GAP: Final = "heartbeat_gap"


class Crediting:
    """Makes the credits of records.

    Parameters
    ----------
    rating
        Knows what lines say of a record.
    """

    def __init__(self, rating: Rating) -> None:
        self._rating = rating

    def for_drains(self, use: Use, rated: Rated, claims: Sequence[GivenBack]) -> Iterator[Line]:
        """Yield what failed drains give back of a record; claims come before it was forgotten."""
        for claim in claims:
            why = (DRAIN, claim.session)
            known = [change for change in rated.changes if change.told <= claim.step]
            at = max(rated.due, claim.step)
            yield from self._pieces(use, known[-1].pieces, claim.span, at, why)
            for change in rated.changes[len(known) :]:
                for line in change.lines:
                    start_ms, end_ms = line.span
                    rate = line.numerator // (end_ms - start_ms)
                    span = _common(line.span, claim.span)
                    if span is not None and rate:
                        yield self._credit(use, (line.charge_id, span, rate), change.at, why)

    def for_gap(
        self, use: Use, rated: Rated, claims: Sequence[GivenBack], step: int
    ) -> Iterator[Line]:
        """Yield what a gap behind a record gives back, in the step that knows that it stays."""
        given = [claim.span for claim in claims if claim.step <= step]
        for span in without([(use.start_ms, use.end_ms)], given):
            yield from self._pieces(use, rated.pieces_at(step), span, step, (GAP, ""))

    def _pieces(
        self, use: Use, pieces: Sequence[Piece], span: Span, at: int, why: tuple[str, str]
    ) -> Iterator[Line]:
        for piece in pieces:
            if piece.charge_id is not None and piece.price_micro is not None:
                rate = piece.price_micro * use.tariff_ppm * use.macc
                part = _common((piece.start_ms, piece.end_ms), span)
                if part is not None and rate:
                    yield self._credit(use, (piece.charge_id, part, rate), at, why)

    def _credit(self, use: Use, what: tuple[str, Span, int], at: int, why: tuple[str, str]) -> Line:
        """Return what is given back: of which line, over which span, at which numerator per ms."""
        credited, span, rate = what
        reason, session = why
        name = digest(b"walras.credit", f"{reason}/{span[0]}/{credited}")
        amount = -rate * (span[1] - span[0])
        fields = (
            *self._rating.use_fields(use, span, name),
            *(credited, reason, session, amount),
        )
        return Line(CREDITED, fields, at)


def _common(one: Span, other: Span) -> Span | None:
    start_ms, end_ms = max(one[0], other[0]), min(one[1], other[1])
    return (start_ms, end_ms) if start_ms < end_ms else None
