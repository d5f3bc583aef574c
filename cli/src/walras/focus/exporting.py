"""Makes the rows of an export: reads invoices, prices and charges, and gives rows by invoice.

Charges are kept on disk until it is known on which invoices they stand and what corrected them; in
memory are the heads of invoices, prices, and the charges that overlap in time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush
from typing import Final

from walras.bill.charged_use import opened
from walras.billing_log import Source, Window
from walras.focus.line_store import LineStore, StoredLine
from walras.focus.placing import Placing
from walras.focus.rounding import Rounding
from walras.focus.rows import Row, RowMaker, billed_units, instant, split_parts
from walras.invoices.latest import Selection, fold_invoices
from walras.prices.history import MarketPrices
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoicePublished, InvoiceRefused, InvoiceState
from walras_contracts.market import PriceGapPublished, PricePublished

BATCH_ROWS: Final = 10_000
Take = Callable[[Sequence[Row]], None]
Prices = Mapping[str, MarketPrices]


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


def export(
    source: Source, window: Window, selection: Selection, provider: str, take: Take
) -> Exported:
    """Make the rows of all invoices that are wanted, and hand them over, invoice by invoice.

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
        Called with rows of an invoice, at most `BATCH_ROWS` at once.

    Raises
    ------
    BillingLogError
        The source cannot be read, or the charges are not what the invoices sum up.
    """
    published = {invoice.invoice_id: invoice for invoice in _heads(source)}
    wanted = [
        invoice
        for invoice in sorted(published.values(), key=_by_owner)
        if invoice.team is not None
        and invoice.state is not InvoiceState.VOIDED
        and window.touches(invoice.start_ms, invoice.start_ms + 1)
        and selection.has(invoice)
    ]
    exported = Exported(len(wanted))
    with LineStore([invoice.invoice_id for invoice in wanted], published) as store:
        placing = Placing.of(published.values())
        _read_lines(source, placing, store, exported)
        placing.check()
        prices = _read_prices(source)
        maker = RowMaker(
            provider,
            Rounding.of(published.values()),
            {(e.pool, e.start_ms, e.end_ms): e.invoice_id for e in _of_pools(published)},
        )
        held = store.by_invoice()
        name, lines = next(held, ("", iter(())))
        for invoice in wanted:
            batches = _Batches(take)
            if name == invoice.invoice_id:
                batches.put(_rows(lines, maker, prices))
                name, lines = next(held, ("", iter(())))
            rounding = maker.rounding(invoice, batches.billed_units)
            batches.put([] if rounding is None else [rounding])
            batches.flush()
            exported.rows += batches.rows
            exported.payable_micro += invoice.payable_micro
    return exported


@dataclass(slots=True)
class _Batches:
    """Hands the rows of an invoice over in batches; counts and sums them."""

    take: Take
    rows: int = 0
    billed_units: int = 0
    _held: list[Row] = field(default_factory=list)

    def put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows += 1
            self.billed_units += billed_units(row)
            self._held.append(row)
            if len(self._held) >= BATCH_ROWS:
                self.flush()

    def flush(self) -> None:
        if self._held:
            self.take(self._held)
            self._held = []


def _heads(source: Source) -> Iterator[InvoicePublished]:
    """Yield the last revisions of all invoices without their lines, which the charges are."""
    events = source.read(InvoicePublished, InvoiceRefused)
    heads = (
        event.model_copy(update={"lines": ()})
        for event in events
        if isinstance(event, InvoicePublished)
    )
    yield from fold_invoices(heads).by_id.values()


def _of_pools(published: Mapping[str, InvoicePublished]) -> Iterator[InvoicePublished]:
    return (invoice for invoice in published.values() if invoice.team is None)


def _read_lines(source: Source, placing: Placing, store: LineStore, exported: Exported) -> None:
    wanted = {*store.wanted}
    for line, step in source.read_in_steps(ChargeRated, ChargeCredited):
        assert isinstance(line, ChargeRated | ChargeCredited)
        for part, place in placing.place(line, step):
            if place is None:
                exported.waiting += 1
                exported.waiting_numerator += int(part.amount_numerator)
            elif place.invoice.invoice_id in wanted:
                store.put(part, place)


def _read_prices(source: Source) -> dict[str, MarketPrices]:
    markets: dict[str, MarketPrices] = {}
    for event in source.read(PricePublished, PriceGapPublished):
        assert isinstance(event, PricePublished | PriceGapPublished)
        markets.setdefault(event.market, MarketPrices()).take(event)
    return markets


def _rows(lines: Iterable[StoredLine], maker: RowMaker, prices: Prices) -> Iterator[Row]:
    """Yield the rows of an invoice by time, job and id, from its lines by their starts.

    Not in the order of the log: another number of partitions must give the same file. A charge has
    several rows where prices change, so those of charges that overlap are merged.
    """
    coming: list[tuple[tuple[datetime, str, str], int, Row, Iterator[Row]]] = []

    def come(place: int, rows: Iterator[Row]) -> None:
        row = next(rows, None)
        if row is not None:
            heappush(coming, (_by_time(row), place, row, rows))

    for place, stored in enumerate(lines):
        start = instant(stored.line.start_ms)
        while coming and coming[0][0][0] < start:
            _, before, row, rows = heappop(coming)
            yield row
            come(before, rows)
        come(place, _rows_of(stored, maker, prices))
    while coming:
        _, before, row, rows = heappop(coming)
        yield row
        come(before, rows)


def _rows_of(stored: StoredLine, maker: RowMaker, prices: Prices) -> Iterator[Row]:
    """Yield the rows of a line in the order of time."""
    line, place, corrections = stored
    if isinstance(line, ChargeCredited):
        yield maker.credit(line, place)
        return
    if line.corrects is not None:
        yield maker.correction(line, place)
        return
    use = opened(line)
    for correction in corrections:
        use.correct(correction)
    market = prices.get(line.market, MarketPrices())
    for piece in use.pieces:
        if piece.price_micro is not None:
            span = piece.start_ms, piece.end_ms
            for part in split_parts(*span, piece.price_micro, market.pieces(None, *span)):
                yield maker.usage(line, place, part)


def _by_owner(invoice: InvoicePublished) -> tuple[str, str, int]:
    return invoice.pool, invoice.team or "", invoice.start_ms


def _by_time(row: Row) -> tuple[datetime, str, str]:
    return row["ChargePeriodStart"], row["ResourceId"], row["x_ChargeId"]
