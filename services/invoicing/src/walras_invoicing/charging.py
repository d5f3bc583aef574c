"""On which line of which invoice a charge stands.

Use belongs to the period that it lies in; a charge over the border of periods is cut there. Up to
the step in which a period is due its use changes the draft; what comes later is a correction on the
open invoice, which is the one of the running period. The invoice that it belongs to stays as it is
then, also where finance still holds it.
"""

from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoiceLineKind
from walras_contracts.work import WorkClass
from walras_invoicing.calendar import Period
from walras_invoicing.charge_parts import ChargePart, parts_of
from walras_invoicing.invoice import TeamInvoice
from walras_invoicing.lines import Line, LineKey
from walras_invoicing.state import InvoicingState, Owner

_USAGE = InvoiceLineKind.USAGE.value
_CORRECTION = InvoiceLineKind.CORRECTION.value
_CREDIT = InvoiceLineKind.CREDIT.value
_UNBILLED = InvoiceLineKind.UNBILLED.value
_MARKET = WorkClass.MARKET.value


class Charging:
    """Takes the charges of one step.

    Parameters
    ----------
    state
        What it changes.
    now_ms
        Market time of the step. What was due by the step before is closed.
    """

    def __init__(self, state: InvoicingState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms
        self._closed_ms = state.clock_ms
        self._places: dict[tuple[str, str, int], tuple[TeamInvoice, bool]] = {}

    def take_rated(self, charge: ChargeRated) -> None:
        """Take a charge or a correction of one: each part of it goes to the period of its start."""
        owner = charge.pool, charge.team
        self._state.account(owner).usage += int(charge.amount_numerator)
        for part in parts_of(charge, self._state.calendar(charge.pool)):
            self._rate(owner, charge, part)

    def take_credit(self, credit: ChargeCredited) -> None:
        """Take what is given back: a line of its own, on a draft as on a later invoice."""
        owner = credit.pool, credit.team
        self._state.account(owner).credit -= int(credit.amount_numerator)
        for part in parts_of(credit, self._state.calendar(credit.pool)):
            invoice, _ = self._place(owner, part.period)
            macc_ms = credit.quantity_macc * (part.end_ms - part.start_ms)
            key = _key(credit, _CREDIT, part.period, None)
            self._add(invoice, key, _line(part, macc_ms, part.charges, part.numerator))

    def reject_late(self, owner: Owner, macc_ms: int) -> None:
        """Report use that came too late to be charged on the open invoice."""
        invoice = self.open_invoice(owner)
        invoice.rejected_late_macc_ms += macc_ms
        self._touch(invoice)

    def open_invoice(self, owner: Owner) -> TeamInvoice:
        """Return the invoice that takes what belongs to closed ones: of the running period."""
        state = self._state
        return state.invoice(owner, state.calendar(owner[0]).period(self._now_ms))

    def move_voided(self, owner: Owner, voided: TeamInvoice) -> TeamInvoice:
        """Put the lines of a voided invoice on the open one, use as a correction; return it."""
        invoice = self.open_invoice(owner)
        for key, line in voided.lines.ordered():
            kind = _CORRECTION if key.kind == _USAGE else key.kind
            price = key.price_micro if kind == _UNBILLED else None
            invoice.lines.add(key._replace(kind=kind, price_micro=price), line)
        self._touch(invoice)
        return invoice

    def _rate(self, owner: Owner, charge: ChargeRated, part: ChargePart) -> None:
        """Take a part of a charge or correction.

        On a draft a correction moves use from the price that was charged to the one that is. Where
        the draft does not hold what is taken back, it stands on an invoice of another period: a
        pool may get its first document, and its calendar with it, after the charge.
        """
        period = part.period
        invoice, is_late = self._place(owner, period)
        macc_ms = charge.quantity_macc * (part.end_ms - part.start_ms)
        price, previous = charge.price_micro, charge.previous_price_micro
        is_free = charge.work_class is WorkClass.OPPORTUNISTIC or not charge.billable
        kind = _UNBILLED if is_free and not (price or previous) else _USAGE
        taken = None if previous is None else _key(charge, kind, period, previous)
        if is_late or not (taken is None or invoice.lines.holds(taken, macc_ms)):
            # What is taken back from unbilled use is no unbilled use.
            is_unbilled = kind == _UNBILLED and price is not None
            late, late_price = (_UNBILLED, price) if is_unbilled else (_CORRECTION, None)
            key = _key(charge, late, period, late_price)
            self._add(invoice, key, _line(part, macc_ms, part.charges, part.numerator))
            return
        unit = charge.tariff_ppm * macc_ms
        if price is not None:
            key = _key(charge, kind, period, price)
            self._add(invoice, key, _line(part, macc_ms, part.charges, price * unit))
        if taken is not None and previous is not None:
            self._add(invoice, taken, _line(part, -macc_ms, 0, -previous * unit))

    def _place(self, owner: Owner, period: Period) -> tuple[TeamInvoice, bool]:
        """Return the invoice that use of a period goes to, and whether it comes too late for it."""
        place = (*owner, period.start_ms)
        known = self._places.get(place)
        if known is None:
            state = self._state
            is_late = state.agreed(owner[0], period).due_ms <= self._closed_ms
            invoice = self.open_invoice(owner) if is_late else state.invoice(owner, period)
            known = self._places[place] = invoice, is_late
        return known

    def _add(self, invoice: TeamInvoice, key: LineKey, line: Line) -> None:
        invoice.lines.add(key, line)
        self._touch(invoice)

    def _touch(self, invoice: TeamInvoice) -> None:
        invoice.changed = True
        self._state.touch(invoice)


def _line(part: ChargePart, macc_ms: int, charges: int, numerator: int) -> Line:
    return Line(part.start_ms, part.end_ms, macc_ms, charges, numerator)


def _key(
    charge: ChargeRated | ChargeCredited, kind: str, period: Period, price_micro: int | None
) -> LineKey:
    work_class = charge.work_class.value if isinstance(charge, ChargeRated) else _MARKET
    return LineKey(
        kind, charge.team, charge.job, charge.market, work_class, price_micro, period.start_ms
    )
