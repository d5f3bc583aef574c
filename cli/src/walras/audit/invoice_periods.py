"""The invoice periods of pools: windows of the calendar in the zone that their documents name.

The first document's terms count from the beginning. A change of zone or period counts from the end
of the period in which it takes effect; the first new period is cut so that it starts there. Grace
and approval of a period are those that count when it starts.

All documents are read first. Invoicing knows them only as they come, and an invoice that exists
keeps the terms it began with; but a document takes effect when it comes or later, and use of a pool
counts from its first document on, so what comes later says the same of every period with use in it.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from walras.audit.incomes import Accounts
from walras_contracts.accounts import BillingTerms
from walras_contracts.calendar_periods import period_of

ALWAYS_MS: Final = 0
"""Market time has no instant before it."""


class Period(NamedTuple):
    """One invoice period of a pool."""

    kind: str
    zone: str
    start_ms: int
    end_ms: int
    due_ms: int
    approval: bool


class _Era(NamedTuple):
    """From an instant on, periods are windows of this calendar."""

    from_ms: int
    terms: BillingTerms

    def window(self, at_ms: int) -> tuple[int, int]:
        start_ms, end_ms = period_of(self.terms.period, self.terms.zone, at_ms)
        return max(start_ms, self.from_ms), end_ms


@dataclass(slots=True)
class _Pool:
    versions: list[tuple[int, BillingTerms]]
    eras: list[_Era]
    found: dict[int, Period] = field(default_factory=dict)
    last: Period | None = None
    """The one that was asked for last: the next is usually in it."""


class InvoicePeriods:
    """Finds the period of a pool that an instant lies in."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._pools: dict[str, _Pool] = {}

    def of(self, pool: str, at_ms: int) -> Period:
        """Return the period of a pool that an instant lies in."""
        held = self._pools.get(pool)
        if held is None:
            held = self._pools[pool] = self._laid_out(pool)
        last = held.last
        if last is not None and last.start_ms <= at_ms < last.end_ms:
            return last
        index = bisect_right(held.eras, at_ms, key=_from_ms) - 1
        start_ms, end_ms = held.eras[index].window(at_ms)
        if index + 1 < len(held.eras):
            end_ms = min(end_ms, held.eras[index + 1].from_ms)
        period = held.found.get(start_ms)
        if period is None:
            at = bisect_right(held.versions, start_ms, key=_from_ms) - 1
            agreed = held.versions[max(0, at)][1]
            terms = held.eras[index].terms
            period = held.found[start_ms] = Period(
                *(terms.period.value, terms.zone, start_ms, end_ms),
                *(end_ms + agreed.grace_ms, agreed.approval),
            )
        held.last = period
        return period

    def _laid_out(self, pool: str) -> _Pool:
        versions = [
            (effective_ms, BillingTerms.model_validate(_terms(document)))
            for effective_ms, document in self._accounts.versions_of(pool)
        ] or [(ALWAYS_MS, BillingTerms())]
        eras = [_Era(ALWAYS_MS, versions[0][1])]
        for effective_ms, terms in versions[1:]:
            if effective_ms == versions[0][0]:
                eras = [_Era(ALWAYS_MS, terms)]
                continue
            if effective_ms <= eras[-1].from_ms:
                # What was to come has not begun, and never will.
                from_ms = eras.pop().from_ms
            else:
                start_ms, end_ms = eras[-1].window(effective_ms)
                from_ms = start_ms if start_ms == effective_ms else end_ms
            if (eras[-1].terms.period, eras[-1].terms.zone) != (terms.period, terms.zone):
                eras.append(_Era(from_ms, terms))
        return _Pool(versions, eras)


def _terms(document: dict[str, Any]) -> dict[str, Any]:
    terms: dict[str, Any] = document.get("billing", {})
    return terms


def _from_ms(held: tuple[int, Any]) -> int:
    return held[0]
