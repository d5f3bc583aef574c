"""Charge lines cut at the borders of the invoice periods of their pool.

A line costs the same for each ms of its time: what a part of it costs is exact.
"""

from collections.abc import Iterator
from typing import NamedTuple

from walras.audit.invoice_periods import InvoicePeriods, Period
from walras.audit.rows import Line


class Part(NamedTuple):
    """A part of a line within one period; ``charges`` is 1 on the first one, 0 on the others."""

    period: Period
    start_ms: int
    end_ms: int
    numerator: int
    charges: int


def parts_of(line: Line, periods: InvoicePeriods) -> Iterator[Part]:
    """Yield the parts of a line in the order of time."""
    start_ms, end_ms = line.span
    _, pool = line.account
    at_ms = start_ms
    while at_ms < end_ms:
        period = periods.of(pool, at_ms)
        behind_ms = min(end_ms, period.end_ms)
        numerator, rest = divmod(line.numerator * (behind_ms - at_ms), end_ms - start_ms)
        assert not rest, f"line {line.charge_id} does not cost the same for each ms"
        yield Part(period, at_ms, behind_ms, numerator, int(at_ms == start_ms))
        at_ms = behind_ms
