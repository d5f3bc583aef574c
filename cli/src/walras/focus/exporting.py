"""Makes the rows of an export: reads invoices, prices and charges, and gives rows by invoice."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from walras.bill.charged_use import ChargedUse, opened
from walras.billing_log import BillingLogError, Source, Window
from walras.focus.placing import Place, Placing
from walras.focus.rounding import Rounding
from walras.focus.rows import Row, RowMaker, billed_units, split_parts
from walras.invoices.latest import Selection, read_invoices
from walras.prices.history import MarketPrices
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoicePublished, InvoiceState
from walras_contracts.market import PriceGapPublished, PricePublished

Take = Callable[[Sequence[Row]], None]


@dataclass(slots=True)
class Exported:
    """What an export holds, and what it leaves out.

    ``waiting``: lines, or parts of lines, that no revision of an invoice has yet, and their exact
    sum.
    """

    invoices: int = 0
    rows: int = 0
    payable_micro: int = 0
    waiting: int = 0
    waiting_numerator: int = 0


@dataclass(slots=True)
class _Charge:
    """A charge that came in time or late, or its part within a period.

    Its use changes with the corrections of its draft.
    """

    line: ChargeRated
    place: Place
    use: ChargedUse


_Charges = dict[tuple[str, str], _Charge]
"""Charges that came in time, by their ids and those of the invoices of their periods."""


@dataclass(slots=True)
class _Held:
    """The lines on one invoice."""

    charges: list[_Charge] = field(default_factory=list)
    corrections: list[tuple[ChargeRated, Place]] = field(default_factory=list)
    credits: list[tuple[ChargeCredited, Place]] = field(default_factory=list)


def export(
    source: Source, window: Window, selection: Selection, provider: str, take: Take
) -> Exported:
    """Make the rows of all invoices that are wanted, and hand them over, an invoice at a time.

    Parameters
    ----------
    source
        Has charges, invoices and prices, charges with their barriers.
    window
        Of the invoices whose period starts in it.
    selection
        Of those the ones wanted. Voided invoices have no rows: their lines are on others.
    provider
        Name of who sells.
    take
        Called with the rows of an invoice.

    Raises
    ------
    BillingLogError
        The source cannot be read, or the charges are not what the invoices sum up.
    """
    published = [*read_invoices(source).by_id.values()]
    placing = Placing.of(published)
    wanted = [
        invoice
        for invoice in published
        if invoice.team is not None
        and invoice.state is not InvoiceState.VOIDED
        and window.touches(invoice.start_ms, invoice.start_ms + 1)
        and selection.has(invoice)
    ]
    exported = Exported()
    held = {invoice.invoice_id: _Held() for invoice in wanted}
    _read_lines(source, placing, held, exported)
    placing.check()
    prices = _read_prices(source)
    maker = RowMaker(
        provider,
        Rounding.of(published),
        {(e.pool, e.start_ms, e.end_ms): e.invoice_id for e in published if e.team is None},
    )
    for invoice in sorted(wanted, key=_by_owner):
        rows = _rows(invoice, held.pop(invoice.invoice_id), maker, prices)
        exported.invoices += 1
        exported.rows += len(rows)
        exported.payable_micro += invoice.payable_micro
        take(rows)
    return exported


def _read_lines(
    source: Source, placing: Placing, held: dict[str, _Held], exported: Exported
) -> None:
    charges: _Charges = {}
    for line, step in source.read_in_steps(ChargeRated, ChargeCredited):
        assert isinstance(line, ChargeRated | ChargeCredited)
        for part, place in placing.place(line, step):
            if place is None:
                exported.waiting += 1
                exported.waiting_numerator += int(part.amount_numerator)
            elif place.invoice.invoice_id in held:
                _hold(part, place, held[place.invoice.invoice_id], charges)


def _hold(line: ChargeRated | ChargeCredited, place: Place, on: _Held, charges: _Charges) -> None:
    """Keep a line, or a part of one, with its invoice, or correct the charge that is there."""
    if isinstance(line, ChargeCredited):
        on.credits.append((line, place))
        return
    home = "" if place.home is None else place.home.invoice_id
    if line.corrects is None:
        charge = _Charge(line, place, opened(line))
        on.charges.append(charge)
        if place.is_in_time:
            charges[line.charge_id, home] = charge
    elif not place.is_in_time:
        on.corrections.append((line, place))
    elif (line.corrects, home) in charges:
        charges[line.corrects, home].use.correct(line)
    else:
        raise BillingLogError(
            f"line {line.charge_id} corrects charge {line.corrects}, which is not there"
        )


def _read_prices(source: Source) -> dict[str, MarketPrices]:
    markets: dict[str, MarketPrices] = {}
    for event in source.read(PricePublished, PriceGapPublished):
        assert isinstance(event, PricePublished | PriceGapPublished)
        markets.setdefault(event.market, MarketPrices()).take(event)
    return markets


def _rows(
    invoice: InvoicePublished, held: _Held, maker: RowMaker, prices: dict[str, MarketPrices]
) -> list[Row]:
    rows = [
        *(row for charge in held.charges for row in _charge_rows(charge, maker, prices)),
        *(maker.correction(line, place) for line, place in held.corrections),
        *(maker.credit(line, place) for line, place in held.credits),
    ]
    # Not in the order of the log: another number of partitions must give the same file.
    rows.sort(key=_by_time)
    rounding = maker.rounding(invoice, sum(billed_units(row) for row in rows))
    return rows if rounding is None else [*rows, rounding]


def _charge_rows(
    charge: _Charge, maker: RowMaker, prices: dict[str, MarketPrices]
) -> Iterator[Row]:
    market = prices.get(charge.line.market, MarketPrices())
    for piece in charge.use.pieces:
        if piece.price_micro is not None:
            span = piece.start_ms, piece.end_ms
            for part in split_parts(*span, piece.price_micro, market.pieces(None, *span)):
                yield maker.usage(charge.line, charge.place, part)


def _by_owner(invoice: InvoicePublished) -> tuple[str, str, int]:
    return invoice.pool, invoice.team or "", invoice.start_ms


def _by_time(row: Row) -> tuple[datetime, str, str]:
    return row["ChargePeriodStart"], row["ResourceId"], row["x_ChargeId"]
