"""The export as Parquet and as CSV, the same rows in both; neither is there until it is whole."""

import csv
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from walras.billing_log.window import moment
from walras.focus.columns import NAMES, SCHEMA
from walras.focus.rows import EPOCH, Row

NAME: Final = "focus-1.2"
SUFFIXES: Final = (".parquet", ".csv")


class FocusFiles:
    """Writes rows into ``DIR/focus-1.2.parquet`` and ``DIR/focus-1.2.csv``.

    Leaving the context without an error puts the files in place, both as the last thing.
    """

    def __init__(self, folder: Path) -> None:
        self.paths = tuple(folder / f"{NAME}{suffix}" for suffix in SUFFIXES)
        self._partial = tuple(path.with_name(f"{path.name}.partial") for path in self.paths)
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Make the folder and open both files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        parquet, text = self._partial
        with ExitStack() as stack:
            self._parquet = stack.enter_context(
                pq.ParquetWriter(parquet, SCHEMA, compression="zstd")
            )
            opened = stack.enter_context(text.open("w", encoding="utf-8", newline=""))
            self._csv = csv.writer(opened, lineterminator="\n")
            self._csv.writerow(NAMES)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close both; put them in place, or remove them."""
        self._stack.close()
        for partial, path in zip(self._partial, self.paths, strict=True):
            if kind is None:
                partial.replace(path)
            else:
                partial.unlink()

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        self._parquet.write_table(pa.Table.from_pylist([*rows], schema=SCHEMA))
        self._csv.writerows([[as_text(row[name]) for name in NAMES] for row in rows])


def as_text(value: Any) -> str:
    """Return a value as CSV has it: null is empty, decimals have no exponent and no zeros behind.

    Raises
    ------
    TypeError
        It is of a kind that no column holds.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    if isinstance(value, datetime):
        since = value - EPOCH
        return moment((since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)
    if isinstance(value, int | str):
        return str(value)
    raise TypeError(f"no column holds {value!r}")
