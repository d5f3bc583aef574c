"""On which invoice a charge line stands, by the rule of invoicing.

Use belongs to the invoice of the period that it lies in, up to and with the step that follows the
one by which the invoice was due; what comes later is on the invoice of the period of its step. The
lines of a voided invoice are on that of the period of the step that voided it. A step later than an
invoice's last revision is not on it yet.

A line that reaches over a border of periods is cut there: each part stands where it belongs.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from walras.billing_log.errors import BillingLogError
from walras.billing_log.sources import NO_TIME_MS, StepTime
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoicePublished, InvoiceState
from walras_contracts.quantities import MARKET_TIME_MS_MAX

Owner = tuple[str, str]
"""Pool and team."""
IN_TIME = StepTime(NO_TIME_MS, NO_TIME_MS)
"""Of a line without a barrier behind it: before all that was due."""


@dataclass(frozen=True, slots=True)
class Place:
    """An invoice that a line is on, and where it would have been.

    ``home`` None: no invoice of the period of the use was ever made. ``is_in_time``: the home took
    it, whatever became of it then.
    """

    invoice: InvoicePublished
    home: InvoicePublished | None
    was_voided: bool
    is_in_time: bool

    @property
    def is_correction(self) -> bool:
        """Whether the period of the use was invoiced before."""
        return self.home is None or self.home.invoice_id != self.invoice.invoice_id


@dataclass(slots=True)
class Placing:
    """The invoices of teams by owner and start; sums what is placed, to compare."""

    by_owner: dict[Owner, list[InvoicePublished]] = field(default_factory=dict)
    placed_numerator: dict[str, int] = field(default_factory=dict)
    """Exact sum of the lines on each invoice."""

    @staticmethod
    def of(invoices: Iterable[InvoicePublished]) -> "Placing":
        """Take the latest revisions of invoices; those of pools are passed over."""
        placing = Placing()
        for invoice in invoices:
            if invoice.team is not None:
                placing.by_owner.setdefault((invoice.pool, invoice.team), []).append(invoice)
        for held in placing.by_owner.values():
            held.sort(key=_start_ms)
        return placing

    def place(
        self, line: ChargeRated | ChargeCredited, step: StepTime | None
    ) -> Iterator[tuple[ChargeRated | ChargeCredited, Place | None]]:
        """Cut a line at the borders of periods; yield the parts, each with where it stands.

        Parts are counted where they stand; None: on no published revision yet. Where a team has no
        invoice of neighbouring periods, what lies in them stands on one invoice, and stays one
        part.

        Raises
        ------
        BillingLogError
            A line that reaches over a border does not cost the same for each ms.
        """
        at_ms = line.start_ms
        while at_ms < line.end_ms:
            behind_ms = min(line.end_ms, self._border_ms((line.pool, line.team), at_ms))
            part = line_part(line, at_ms, behind_ms)
            yield part, self._place(part, step)
            at_ms = behind_ms

    def _place(self, line: ChargeRated | ChargeCredited, step: StepTime | None) -> Place | None:
        step = step or IN_TIME
        owner = line.pool, line.team
        home = self._of_period(owner, line.start_ms)
        invoice, at_ms = home, step.at_ms
        is_in_time = home is not None and home.due_ms > step.before_ms
        if not is_in_time:
            invoice = self._of_period(owner, step.at_ms)
        was_voided = False
        while invoice is not None and invoice.at_ms >= at_ms:
            if invoice.state is not InvoiceState.VOIDED:
                known = self.placed_numerator.get(invoice.invoice_id, 0)
                self.placed_numerator[invoice.invoice_id] = known + int(line.amount_numerator)
                return Place(invoice, home, was_voided, is_in_time)
            at_ms, was_voided = invoice.at_ms, True
            invoice = self._of_period(owner, at_ms)
        return None

    def check(self) -> None:
        """Compare what was placed with what the invoices say.

        Raises
        ------
        BillingLogError
            An invoice sums up other lines.
        """
        for owner in sorted(self.by_owner):
            for invoice in self.by_owner[owner]:
                placed = self.placed_numerator.get(invoice.invoice_id, 0)
                if invoice.state is not InvoiceState.VOIDED and placed != int(
                    invoice.amount_numerator
                ):
                    raise BillingLogError(
                        f"invoice {invoice.invoice_id} of {invoice.team} sums up "
                        f"{invoice.amount_numerator} units, its charge lines {placed}: the charges "
                        "are not complete, or a file lacks their barriers"
                    )

    def _border_ms(self, owner: Owner, at_ms: int) -> int:
        """Return where the invoice of an instant ends; without one, where the next begins."""
        held = self.by_owner.get(owner, [])
        index = bisect_right(held, at_ms, key=_start_ms)
        if index and at_ms < held[index - 1].end_ms:
            return held[index - 1].end_ms
        return held[index].start_ms if index < len(held) else MARKET_TIME_MS_MAX

    def _of_period(self, owner: Owner, at_ms: int) -> InvoicePublished | None:
        held = self.by_owner.get(owner, [])
        index = bisect_right(held, at_ms, key=_start_ms) - 1
        return held[index] if index >= 0 and at_ms < held[index].end_ms else None


def line_part(
    line: ChargeRated | ChargeCredited, start_ms: int, end_ms: int
) -> ChargeRated | ChargeCredited:
    """Return what a line says of a part of its time.

    Raises
    ------
    BillingLogError
        It does not cost the same for each ms.
    """
    if (start_ms, end_ms) == (line.start_ms, line.end_ms):
        return line
    length_ms = line.end_ms - line.start_ms
    numerator, rest = divmod(int(line.amount_numerator) * (end_ms - start_ms), length_ms)
    if rest:
        raise BillingLogError(
            f"line {line.charge_id} of {line.amount_numerator} units cannot be cut at the border "
            "of a period: it does not cost the same for each ms"
        )
    cut = {"start_ms": start_ms, "end_ms": end_ms, "amount_numerator": str(numerator)}
    return line.model_copy(update=cut)


def _start_ms(invoice: InvoicePublished) -> int:
    return invoice.start_ms
