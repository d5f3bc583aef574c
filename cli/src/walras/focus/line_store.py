"""The lines of invoices on disk until all of them are known: there may be more than fit in memory.

A temporary database of SQLite, which has no name and goes with the process. It gives the lines back
invoice by invoice in the order of their times, each charge with the corrections that changed it
while its invoice was a draft.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from walras.billing_log.errors import BillingLogError
from walras.focus.placing import Place
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoicePublished

BATCH_LINES: Final = 1000
TABLES: Final = """
CREATE TABLE line (
    invoice INTEGER, start_ms INTEGER, number INTEGER, charge TEXT, home TEXT, was_voided INTEGER,
    is_in_time INTEGER, is_draft INTEGER, is_credit INTEGER, payload BLOB);
CREATE TABLE correction (charge TEXT, home TEXT, number INTEGER, payload BLOB);
"""
"""``is_draft``: a charge that a correction can change."""
LINES: Final = """
SELECT line.invoice, line.number, line.home, line.was_voided, line.is_in_time, line.is_credit,
    line.payload, correction.payload
FROM line LEFT JOIN correction ON line.is_draft AND correction.charge = line.charge
    AND correction.home = line.home AND correction.number > line.number
ORDER BY line.invoice, line.start_ms, line.number, correction.number
"""
ORPHAN: Final = """
SELECT payload FROM correction WHERE NOT EXISTS (
    SELECT 1 FROM line WHERE line.is_draft AND line.charge = correction.charge
        AND line.home = correction.home AND line.number < correction.number)
ORDER BY number LIMIT 1
"""
Row = tuple[Any, ...]


class StoredLine(NamedTuple):
    """A charge, a late correction or a credit; the corrections that changed it on its draft."""

    line: ChargeRated | ChargeCredited
    place: Place
    corrections: list[ChargeRated]


@dataclass(slots=True)
class LineStore:
    """Keeps the lines that stand on some invoices; use it as a context.

    Parameters
    ----------
    wanted
        The ids of the invoices, in the order in which they are given back.
    invoices
        All invoices by id: a line may belong to the period of one that is not wanted.
    """

    wanted: list[str]
    invoices: Mapping[str, InvoicePublished]
    _places: dict[str, int] = field(init=False)
    _database: sqlite3.Connection = field(init=False)
    _number: int = 0
    _attached: int = 0
    """How many corrections were given back with their charges."""
    _lines: list[Row] = field(default_factory=list)
    _corrections: list[Row] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Open the database."""
        self._places = {name: place for place, name in enumerate(self.wanted)}
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(f"PRAGMA journal_mode = OFF; BEGIN; {TABLES}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it: nothing of it stays."""
        self._database.close()
        if isinstance(error, sqlite3.Error):
            raise BillingLogError(f"lines cannot be kept in a temporary file: {error}") from error

    def put(self, line: ChargeRated | ChargeCredited, place: Place) -> None:
        """Keep a line, or a part of one; lines come in the order of the log."""
        self._number += 1
        home = "" if place.home is None else place.home.invoice_id
        is_credit = isinstance(line, ChargeCredited)
        corrects = None if isinstance(line, ChargeCredited) else line.corrects
        if corrects is not None and place.is_in_time:
            self._corrections.append((corrects, home, self._number, line.payload()))
        else:
            is_draft = place.is_in_time and not is_credit
            invoice = self._places[place.invoice.invoice_id]
            row = (invoice, line.start_ms, self._number, line.charge_id, home)
            flags = (place.was_voided, place.is_in_time, is_draft, is_credit)
            self._lines.append((*row, *flags, line.payload()))
        if len(self._lines) + len(self._corrections) >= BATCH_LINES:
            self._write()

    def by_invoice(self) -> Iterator[tuple[str, Iterator[StoredLine]]]:
        """Yield the invoices that have lines, in order, with their lines by start.

        Raises
        ------
        BillingLogError
            A line corrects a charge that is not there.
        """
        self._write()
        self._database.execute("CREATE INDEX of_charge ON correction (charge, home)")
        for place, rows in groupby(self._database.execute(LINES), key=_invoice):
            name = self.wanted[place]
            yield name, (self._stored(name, [*same]) for _, same in groupby(rows, key=_number))
        (total,) = self._database.execute("SELECT count(*) FROM correction").fetchone()
        if total != self._attached:
            self._database.execute("CREATE INDEX of_line ON line (charge, home)")
            (payload,) = self._database.execute(ORPHAN).fetchone()
            line = ChargeRated.model_validate_json(payload)
            raise BillingLogError(
                f"line {line.charge_id} corrects charge {line.corrects}, which is not there"
            )

    def _stored(self, name: str, rows: Sequence[Row]) -> StoredLine:
        _, _, home, was_voided, is_in_time, is_credit, payload, _ = rows[0]
        model = ChargeCredited if is_credit else ChargeRated
        corrections = [row[-1] for row in rows if row[-1] is not None]
        self._attached += len(corrections)
        return StoredLine(
            model.model_validate_json(payload),
            Place(
                self.invoices[name],
                self.invoices[home] if home else None,
                bool(was_voided),
                bool(is_in_time),
            ),
            [ChargeRated.model_validate_json(each) for each in corrections],
        )

    def _write(self) -> None:
        for table, rows in (("line", self._lines), ("correction", self._corrections)):
            if rows:
                values = ", ".join("?" * len(rows[0]))
                self._database.executemany(f"INSERT INTO {table} VALUES ({values})", rows)
                rows.clear()


def _invoice(row: Row) -> int:
    return int(row[0])


def _number(row: Row) -> int:
    return int(row[1])
