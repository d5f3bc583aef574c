"""The charge lines that a usage record must have, computed anew from usage and prices.

A record is charged at the prices known by its position, the first barrier at or after its end and
grace, in the first step that has both; each later step that tells another price for its time, or
brings a lower number that claims it, corrects it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from walras.audit.audit_rules import AuditRules
from walras.audit.price_book import NO_STEP, PriceBook
from walras.audit.rows import RATED, Line, Span, Use, joined, length_ms, without
from walras.audit.steps import Clock


class Taken(NamedTuple):
    """A time of a record that a lower number or attempt claims.

    ``step`` None: before the record was rated. Else the step that took it back.
    """

    step: int | None
    span: Span


class Piece(NamedTuple):
    """A part of a record at one price; ``charge_id`` None: it was never charged."""

    start_ms: int
    end_ms: int
    price_micro: int | None
    charge_id: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """What a step made of a record.

    ``told``: the step that told what it rests on, which is earlier where the record came late; -1:
    it was rated first. ``at``: the step in which it is written.
    """

    told: int
    at: int
    pieces: list[Piece]
    lines: list[Line]


@dataclass(slots=True)
class Rated:
    """What a record must have on the log.

    ``given_up``: parts that waited too long for a price, each with the step that gave them up.
    ``is_final``: False where it was forgotten before something else came that concerns it.
    """

    due: int
    changes: list[Change] = field(default_factory=list)
    given_up: list[tuple[int, Span]] = field(default_factory=list)
    is_final: bool = True
    timeline: list[tuple[int, list[Piece]]] = field(default_factory=list)
    """The pieces after each step that changed them."""

    @property
    def pieces(self) -> list[Piece]:
        """What it is charged at last."""
        return self.timeline[-1][1]

    def pieces_at(self, step: int) -> list[Piece]:
        """Return what it is charged after a step."""
        return [pieces for at, pieces in self.timeline if at <= step][-1]

    def lines(self) -> Iterator[Line]:
        """Yield its lines in order."""
        for change in self.changes:
            yield from change.lines


def digest(person: bytes, text: str) -> str:
    """Return 16 bytes of BLAKE2b in hex, as the ids of lines are made."""
    return blake2b(text.encode(), digest_size=16, person=person).hexdigest()


Forgets = Callable[[int, list[tuple[int, list[Piece]]]], bool]
"""Whether billing had forgotten a record before a step, given the timeline up to it."""


class Rating:
    """Charges records at the prices of a book.

    Parameters
    ----------
    book
        All prices, with the steps that told them.
    rules
        What billing was set to.
    clock
        When the steps were.
    """

    def __init__(self, book: PriceBook, rules: AuditRules, clock: Clock) -> None:
        self._book = book
        self._rules = rules
        self._clock = clock

    def rate(self, use: Use, taken: Sequence[Taken], position: int, is_forgotten: Forgets) -> Rated:
        """Return what a record must have on the log.

        Parameters
        ----------
        use
            The record.
        taken
            What lower numbers and attempts claim of it.
        position
            Number of the first barrier at or after its end and grace.
        is_forgotten
            Whether billing had forgotten it by then.
        """
        due = max(use.arrival, position)
        first = [take.span for take in taken if take.step is None]
        later: dict[int, list[Span]] = defaultdict(list)
        for take in taken:
            if take.step is not None:
                later[take.step].append(take.span)
        rated = Rated(due)
        lines: list[Line] = []
        pieces = [
            self._charged(use, run, due, lines)
            for span in without([(use.start_ms, use.end_ms)], joined(first))
            for run in self._runs(use, span, position)
        ]
        rated.changes.append(Change(NO_STEP, due, pieces, lines))
        rated.timeline.append((due, pieces))
        steps = set(later)
        if not use.is_free:
            for piece in pieces:
                span = (piece.start_ms, piece.end_ms)
                steps.update(self._book.later_steps(use.market, span, position))
        for step in sorted(steps):
            if step > self._clock.last:
                break
            self._give_up(use, rated, step)
            if step > due and is_forgotten(step, rated.timeline):
                rated.is_final = False
                break
            self._change(use, rated, step, later.get(step, []))
        self._give_up(use, rated, self._clock.last + 1)
        return rated

    def _change(self, use: Use, rated: Rated, step: int, claimed: list[Span]) -> None:
        at = max(step, rated.due)
        lines: list[Line] = []
        pieces = [
            new
            for piece in rated.pieces
            for new in self._changed(use, piece, (step, at), claimed, lines)
        ]
        rated.changes.append(Change(step, at, pieces, lines))
        rated.timeline.append((at, pieces))

    def _give_up(self, use: Use, rated: Rated, before: int) -> None:
        """Give up what waits for a price for too long, if that happens before a step."""
        waiting = [piece for piece in rated.pieces if piece.price_micro is None]
        step = self._clock.step_at(use.end_ms + self._rules.price_wait_ms) if waiting else None
        if step is None:
            return
        step = max(step, rated.timeline[-1][0])
        if step >= before:
            return
        rated.given_up += [(step, (piece.start_ms, piece.end_ms)) for piece in waiting]
        rated.timeline.append((step, [p for p in rated.pieces if p.price_micro is not None]))

    def _runs(self, use: Use, span: Span, step: int) -> Iterator[tuple[Span, int | None, int]]:
        if use.is_free:
            yield span, 0, NO_STEP
            return
        age_ms = self._rules.max_price_age_ms
        for run in self._book.runs(use.market, use.pool, span, step, age_ms):
            price = run.price_micro
            if price is not None and use.limit_micro is not None:
                price = min(price, use.limit_micro)
            yield (run.start_ms, run.end_ms), price, run.step

    def _charged(
        self, use: Use, run: tuple[Span, int | None, int], at: int, lines: list[Line]
    ) -> Piece:
        """Charge a part for the first time; without a price it waits."""
        span, price, told = run
        if price is None:
            return Piece(*span, None, None)
        name = digest(b"walras.charge", f"{use.seq}/{span[0]}/{use.source}")
        lines.append(self._line(use, span, at, (name, None, "usage", price, None, told)))
        return Piece(*span, price, name)

    def _changed(
        self,
        use: Use,
        piece: Piece,
        steps: tuple[int, int],
        claimed: list[Span],
        lines: list[Line],
    ) -> Iterator[Piece]:
        """Correct a part by what a step told, in the step in which it can be; yield its rest."""
        step, at = steps
        whole: list[Span] = [(piece.start_ms, piece.end_ms)]
        kept = without(whole, joined(claimed))
        if piece.charge_id is not None:
            for span in without(whole, kept):
                lines.append(self._correction(use, piece, (span, None, NO_STEP), "overlap", steps))
        for span in kept:
            for run in self._runs(use, span, step):
                if piece.charge_id is None:
                    yield self._charged(use, run, at, lines)
                    continue
                if run[1] != piece.price_micro:
                    lines.append(self._correction(use, piece, run, "late_price", steps))
                yield Piece(*run[0], run[1], piece.charge_id)

    def _correction(
        self,
        use: Use,
        piece: Piece,
        run: tuple[Span, int | None, int],
        reason: str,
        steps: tuple[int, int],
    ) -> Line:
        span, price, told = run
        name = digest(b"walras.correct", f"{steps[0]}/{span[0]}/{piece.charge_id}")
        given = (name, piece.charge_id, reason, price, piece.price_micro, told)
        return self._line(use, span, steps[1], given)

    def _line(self, use: Use, span: Span, at: int, given: tuple[Any, ...]) -> Line:
        name, corrects, reason, price, previous, told = given
        difference = (price or 0) - (previous or 0)
        amount = difference * use.tariff_ppm * use.macc * (span[1] - span[0])
        fields = (
            *self.use_fields(use, span, name),
            *(corrects, reason, use.work_class, use.billable, price, previous, told, amount),
        )
        return Line(RATED, fields, at)

    def use_fields(self, use: Use, span: Span, name: str) -> tuple[Any, ...]:
        """Return what a line about a part of a record says of it (`USE_FIELDS`)."""
        return (
            *(use.team, use.pool, use.job, use.market, use.lease, use.node, use.attempt, use.seq),
            *(use.macc, *span, use.limit_micro, use.tariff_ppm),
            *(use.end_ms + self._rules.price_grace_ms, name),
        )


def cost_now(book: PriceBook, use: Use, spans: Sequence[Span], rules: AuditRules, last: int) -> int:
    """Return what a record costs by all that is known, another way: instant by instant.

    A price that is not known costs nothing yet.
    """
    if use.is_free:
        return 0
    total = 0
    for span in spans:
        for run in book.runs(use.market, use.pool, span, last, rules.max_price_age_ms):
            price = run.price_micro or 0
            if use.limit_micro is not None:
                price = min(price, use.limit_micro)
            total += price * length_ms([(run.start_ms, run.end_ms)])
    return total * use.tariff_ppm * use.macc
