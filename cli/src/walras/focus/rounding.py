"""By how much what is payable of an invoice may differ from its exact sum.

The totals of use and of credits over all invoices of a team in a pool that are not voided are
rounded, each to the nearest µcr: together they are off by 1 at most. An invoice takes them from one
such total to the next, so it is off by 2 at most. What a voided invoice was off, another makes up
for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from walras.billing_log.amounts import NUMERATOR_PER_MICRO
from walras_contracts.invoices import InvoicePublished, InvoiceState

OFF_MICRO: Final = 2


@dataclass(slots=True)
class Rounding:
    """What voided invoices were off, by pool and team, in units of a numerator."""

    voided: dict[tuple[str, str | None], int] = field(default_factory=dict)

    @staticmethod
    def of(invoices: Iterable[InvoicePublished]) -> "Rounding":
        """Take the latest revisions of invoices."""
        rounding = Rounding()
        for invoice in invoices:
            if invoice.state is InvoiceState.VOIDED:
                owner = invoice.pool, invoice.team
                rounding.voided[owner] = rounding.voided.get(owner, 0) + _off(invoice)
        return rounding

    def explains(self, invoice: InvoicePublished) -> bool:
        """Tell whether rounding can make what is payable of what the invoice sums up."""
        voided = self.voided.get((invoice.pool, invoice.team), 0)
        return _off(invoice) <= OFF_MICRO * NUMERATOR_PER_MICRO + voided


def _off(invoice: InvoicePublished) -> int:
    return abs(invoice.payable_micro * NUMERATOR_PER_MICRO - int(invoice.amount_numerator))
