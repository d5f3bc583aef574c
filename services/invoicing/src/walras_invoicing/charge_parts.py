"""Charge lines cut at the borders of invoice periods.

Billing takes usage records of up to a day, and cuts them where prices change, not where periods
end. So a charge, a correction or a credit may reach over one or more borders. An amount is so much
for each ms of its time: what a part of it costs is a whole number of units again.
"""

from typing import NamedTuple

from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_invoicing.calendar import Period, PoolCalendar
from walras_runtime.errors import InvariantBrokenError


class ChargePart(NamedTuple):
    """A part of a charge line that lies within one period.

    ``charges`` is 1 on the first part of a line and 0 on the others: a line counts once.
    """

    period: Period
    start_ms: int
    end_ms: int
    numerator: int
    charges: int


def parts_of(line: ChargeRated | ChargeCredited, calendar: PoolCalendar) -> list[ChargePart]:
    """Cut a line at the borders of periods; most lie within one, and stay whole.

    Parameters
    ----------
    line
        A charge, a correction or a credit.
    calendar
        The periods of its pool.

    Returns
    -------
    list
        The parts in the order of time. They cover the line, and their amounts sum to its amount.

    Raises
    ------
    InvariantBrokenError
        The amount is not the same whole number of units for each ms.
    """
    start_ms, end_ms = line.start_ms, line.end_ms
    numerator = int(line.amount_numerator)
    period = calendar.period(start_ms)
    if end_ms <= period.end_ms:
        return [ChargePart(period, start_ms, end_ms, numerator, 1)]
    rate, rest = divmod(numerator, end_ms - start_ms)
    if rest:
        raise InvariantBrokenError(
            f"line {line.charge_id} costs {numerator} units for {end_ms - start_ms} ms, which "
            "cannot be cut at the border of a period"
        )
    parts = []
    at_ms = start_ms
    while at_ms < end_ms:
        period = calendar.period(at_ms)
        behind_ms = min(period.end_ms, end_ms)
        amount = rate * (behind_ms - at_ms)
        parts.append(ChargePart(period, at_ms, behind_ms, amount, int(at_ms == start_ms)))
        at_ms = behind_ms
    return parts
