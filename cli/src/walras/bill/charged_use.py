"""Charges with all that corrected them: which use is charged at which price, as it stands now."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from walras.billing_log.errors import BillingLogError
from walras.billing_log.window import Window
from walras_contracts.charges import (
    ChargeCredited,
    ChargePending,
    ChargeRated,
    ChargeReason,
    CreditReason,
)
from walras_contracts.work import WorkClass


@dataclass(frozen=True, slots=True)
class Piece:
    """A part ``[start_ms, end_ms)`` of a charge at one price; None: it is not known any more."""

    start_ms: int
    end_ms: int
    price_micro: int | None


@dataclass(frozen=True, slots=True)
class Correction:
    """By how much a part of a charge was corrected, per unit of weight and ms."""

    reason: ChargeReason
    start_ms: int
    end_ms: int
    difference_micro: int


@dataclass(frozen=True, slots=True)
class Credit:
    """What was given back for a part of a usage record; the amount is not above 0."""

    reason: CreditReason
    start_ms: int
    end_ms: int
    amount_numerator: int


@dataclass(slots=True)
class ChargedUse:
    """One charge: the use, what was charged at first, and what became of it.

    ``pieces`` are the use as it stands: without what another record turned out to claim.
    """

    charge_id: str
    pool: str
    job: str
    market: str
    work_class: WorkClass
    billable: bool
    quantity_macc: int
    tariff_ppm: int
    start_ms: int
    end_ms: int
    first_price_micro: int | None
    pieces: list[Piece]
    corrections: list[Correction] = field(default_factory=list)

    @property
    def weight(self) -> int:
        """What a price and a time are multiplied with."""
        return self.quantity_macc * self.tariff_ppm

    @property
    def is_opportunistic(self) -> bool:
        """Whether it ran at price 0 on what nobody bought."""
        return self.work_class is WorkClass.OPPORTUNISTIC

    def correct(self, line: ChargeRated) -> None:
        """Apply a correction.

        Raises
        ------
        BillingLogError
            It does not follow from what is charged so far.
        """
        start_ms, end_ms = line.start_ms, line.end_ms
        pieces: list[Piece] = []
        covered_ms = 0
        for piece in self.pieces:
            first_ms, behind_ms = max(piece.start_ms, start_ms), min(piece.end_ms, end_ms)
            if first_ms >= behind_ms:
                pieces.append(piece)
                continue
            if piece.price_micro != line.previous_price_micro:
                raise BillingLogError(
                    f"correction {line.charge_id} says that {line.previous_price_micro} was "
                    f"charged; charge {self.charge_id} stands at {piece.price_micro}"
                )
            covered_ms += behind_ms - first_ms
            parts = [
                (piece.start_ms, first_ms, piece.price_micro),
                (first_ms, behind_ms, line.price_micro),
                (behind_ms, piece.end_ms, piece.price_micro),
            ]
            if line.reason is ChargeReason.OVERLAP:
                del parts[1]
            pieces += [Piece(start, end, price) for start, end, price in parts if start < end]
        if covered_ms != end_ms - start_ms:
            raise BillingLogError(
                f"correction {line.charge_id} reaches beyond charge {self.charge_id}"
            )
        self.pieces = pieces
        difference = (line.price_micro or 0) - (line.previous_price_micro or 0)
        self.corrections.append(Correction(line.reason, start_ms, end_ms, difference))


@dataclass(slots=True)
class ChargeFold:
    """Folds charge lines in the order of the log; what lies outside the window is left out.

    A charge that reaches into the window is known whole: what was corrected outside of it decides
    what later corrections start from.
    """

    window: Window = field(default_factory=Window)
    uses: dict[str, ChargedUse] = field(default_factory=dict)
    """By the id of the charge."""
    credits: list[tuple[str, str, str, Credit]] = field(default_factory=list)
    """Pool, job, market and credit."""
    rated: dict[tuple[str, str, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """By lease, node, attempt and number the spans of charges: what waits in them for a price
    again was charged before."""

    def take(self, line: ChargeRated | ChargeCredited) -> None:
        """Take the next line.

        Raises
        ------
        BillingLogError
            It corrects a charge that is not there, or not as it stands.
        """
        if isinstance(line, ChargeRated) and line.corrects in self.uses:
            self.uses[line.corrects].correct(line)
        elif not self.window.touches(line.start_ms, line.end_ms):
            return
        elif isinstance(line, ChargeCredited):
            credit = Credit(line.reason, line.start_ms, line.end_ms, int(line.amount_numerator))
            self.credits.append((line.pool, line.job, line.market, credit))
        elif line.corrects is None:
            self.uses[line.charge_id] = opened(line)
            record = (line.lease, line.node, line.attempt, line.seq)
            self.rated.setdefault(record, []).append((line.start_ms, line.end_ms))
        else:
            raise BillingLogError(
                f"line {line.charge_id} corrects charge {line.corrects}, which is not there"
            )

    def was_charged(self, part: ChargePending) -> bool:
        """Whether a part that waits for its price, or did, lies in a charge."""
        spans = self.rated.get((part.lease, part.node, part.attempt, part.seq), ())
        return any(start_ms <= part.start_ms < end_ms for start_ms, end_ms in spans)

    def priced(self) -> Iterator[tuple[ChargedUse, int, int, int | None]]:
        """Yield each piece within the window: its charge, start, end and price."""
        for use in self.uses.values():
            for piece in use.pieces:
                start_ms, end_ms = self.window.clip(piece.start_ms, piece.end_ms)
                if start_ms < end_ms:
                    yield use, start_ms, end_ms, piece.price_micro


def opened(line: ChargeRated) -> ChargedUse:
    """Return a charge as it was charged at first."""
    return ChargedUse(
        charge_id=line.charge_id,
        pool=line.pool,
        job=line.job,
        market=line.market,
        work_class=line.work_class,
        billable=line.billable,
        quantity_macc=line.quantity_macc,
        tariff_ppm=line.tariff_ppm,
        start_ms=line.start_ms,
        end_ms=line.end_ms,
        first_price_micro=line.price_micro,
        pieces=[Piece(line.start_ms, line.end_ms, line.price_micro)],
    )
