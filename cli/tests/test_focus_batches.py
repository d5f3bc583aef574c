"""`walras focus` takes logs that do not fit in memory: lines go to disk, rows come in batches."""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import pytest

from cli.tests.focus_bench import ALL, EVERYTHING, REFERENCE, latest, random_days, rows_of
from walras.billing_log import BillingLogError
from walras.billing_log.sources import E, StepTime, in_steps
from walras.billing_log.testing import (
    OCTOBER_MS,
    UNITS,
    MemorySource,
    charge,
    correction,
    invoice,
    invoice_line,
)
from walras.focus import exporting, line_store
from walras.focus.exporting import export
from walras.focus.line_store import LineStore
from walras.focus.placing import Place
from walras.focus.rows import Row
from walras_contracts.charges import ChargeRated
from walras_contracts.event import Event
from walras_runtime.records import Barrier

PRICE_MICRO = 3_600_000
"""At which an accelerator costs 1 µcr a millisecond."""


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("seed", range(4))
def test_batches_hold_no_more_than_they_may_of_one_invoice_each_and_the_rows_are_the_same(
    seed: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_days(seed).source(*REFERENCE)
    exported, rows = rows_of(source)
    monkeypatch.setattr(exporting, "BATCH_ROWS", size)
    monkeypatch.setattr(line_store, "BATCH_LINES", size)
    batches: list[Sequence[Row]] = []
    again = export(source, ALL, EVERYTHING, "Walras", batches.append)
    assert again == exported
    assert [row for batch in batches for row in batch] == rows
    assert {len(batch) for batch in batches} <= {*range(1, size + 1)}
    assert all(len({row["InvoiceId"] for row in batch}) == 1 for batch in batches)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_by_time_job_and_id_whatever_the_order_of_partitions(seed: int) -> None:
    invoicing = random_days(seed)
    _, rows = rows_of(invoicing.source(*REFERENCE))
    for each in latest(invoicing):
        mine = [row for row in rows if row["InvoiceId"] == each.invoice_id]
        keys = [
            (row["ChargePeriodStart"], row["ResourceId"], row["x_ChargeId"])
            for row in mine
            if row["ChargeCategory"] != "Adjustment"
        ]
        assert keys == sorted(keys)
        assert all(row["ChargeCategory"] != "Adjustment" for row in mine[:-1])


@dataclass(frozen=True)
class Stream(MemorySource):
    """Very many charges of a millisecond, made when they are read; notes how many are alive."""

    count: int = 0
    most: list[int] = field(default_factory=list)

    def read_in_steps(self, *_models: type[E]) -> Iterator[tuple[E, StepTime | None]]:
        """Yield the charges, ten a step."""
        return in_steps(self._lines())

    def _lines(self) -> Iterator[Any]:
        alive: WeakSet[Event] = WeakSet()
        for number in range(self.count):
            if number % 10 == 0:
                yield Barrier(number, OCTOBER_MS + number)
            line = charge(OCTOBER_MS + number, OCTOBER_MS + number + 1, PRICE_MICRO, seq=number)
            alive.add(line)
            self.most.append(len(alive))
            yield line
        yield Barrier(self.count, OCTOBER_MS + self.count)
        yield None


def test_as_many_lines_and_rows_are_in_memory_of_many_as_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "BATCH_ROWS", 50)
    monkeypatch.setattr(line_store, "BATCH_LINES", 20)
    gc.collect()
    most = []
    for count in (200, 2000):
        told = invoice(invoice_line("usage", count, charges=count))
        stream, sizes = Stream([told], count), Counter[int]()

        def take(rows: Sequence[Row], sizes: Counter[int] = sizes) -> None:
            sizes[len(rows)] += 1

        exported = export(stream, ALL, EVERYTHING, "Walras", take)
        assert (exported.rows, exported.payable_micro) == (count, count)
        assert sizes == {50: count // 50}
        most.append(max(stream.most))
    assert most[0] == most[1] < 50


def test_a_correction_of_a_charge_that_is_not_there_or_comes_later_is_refused() -> None:
    line = charge(OCTOBER_MS, OCTOBER_MS + 2, PRICE_MICRO)
    span = (OCTOBER_MS, OCTOBER_MS + 2)
    dearer = correction(line, *span, price_micro=2 * PRICE_MICRO, previous_price_micro=PRICE_MICRO)
    told = invoice(invoice_line("usage", 4))
    alone = invoice(invoice_line("usage", 2))
    assert rows_of(MemorySource([line, dearer, told]))[0].rows == 1
    for log in ([dearer, line, told], [dearer, alone]):
        with pytest.raises(BillingLogError, match=f"corrects charge {line.charge_id}, which is"):
            rows_of(MemorySource(log))


def test_a_full_disk_is_told_as_what_cannot_be_done() -> None:
    told = invoice(invoice_line("usage", 1))
    store = LineStore([told.invoice_id], {told.invoice_id: told})
    place = Place(told, told, was_voided=False, is_in_time=True)
    line: ChargeRated = charge(OCTOBER_MS, OCTOBER_MS + 1, PRICE_MICRO)

    def fill() -> None:
        with store:
            store._database.execute("PRAGMA max_page_count = 8")
            for _ in range(10_000):
                store.put(line, place)

    with pytest.raises(BillingLogError, match="temporary file: database or disk is full"):
        fill()


def test_the_units_of_these_charges_are_whole_micro_credits() -> None:
    assert int(charge(0, 1, PRICE_MICRO).amount_numerator) == UNITS
