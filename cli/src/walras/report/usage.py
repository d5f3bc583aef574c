"""Metered use: occupancy over time, use and price paid of each team.

The report rates use itself, by the rule of design §6: the price of the pool in force, at most the
job's limit; opportunistic and unbillable time costs nothing. It needs the prices first.

A start pays for five minutes. What it pays for behind its end, use in which nothing ran, is no
occupancy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.billing_log.amounts import NUMERATOR_PER_MICRO, half_even, mean_price_micro
from walras.report.prices import History, PriceBook
from walras.report.records import LogRecord
from walras.report.series import Bins
from walras_contracts.work import WorkClass

_MARKET, _OPPORTUNISTIC = WorkClass.MARKET.value, WorkClass.OPPORTUNISTIC.value


@dataclass(slots=True)
class TeamUse:
    """What one team used inside the window, in macc·ms by class, and what it owes for it."""

    market_macc_ms: int = 0
    opportunistic_macc_ms: int = 0
    overhang_macc_ms: int = 0
    rated_macc_ms: int = 0
    """Use that is paid for: billable, not opportunistic, with a price in force."""
    unpriced_macc_ms: int = 0
    """Billable time without a price in force."""
    idle_paid_macc_ms: int = 0
    """Paid use in which nothing ran, as of starts that ended early; the classes leave it out."""
    numerator: int = 0

    @property
    def total_macc_ms(self) -> int:
        """Use of all classes."""
        return self.market_macc_ms + self.opportunistic_macc_ms + self.overhang_macc_ms

    @property
    def rated_micro(self) -> int:
        """What it owes, rounded half to even."""
        return half_even(self.numerator, NUMERATOR_PER_MICRO)

    def mean_price_micro(self) -> int | None:
        """Return the average price per accelerator-hour paid for; None without such use."""
        return mean_price_micro(self.numerator, self.rated_macc_ms)


@dataclass(slots=True)
class UsageBook:
    """Folds the usage records of a window; a week has some millions of them."""

    bins: Bins
    prices: PriceBook
    teams: dict[str, TeamUse] = field(default_factory=dict)
    occupied: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """macc·ms per bin by (market, work class)."""
    _unpriced: History = field(default_factory=History)

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``usage``; what lies outside the window is cut off."""
        bins, teams, occupied = self.bins, self.teams, self.occupied
        window_start_ms, window_end_ms = bins.start_ms, bins.end_ms
        for record in records:
            body = record.body()
            start_ms, end_ms, macc = body["start_ms"], body["end_ms"], body["quantity_macc"]
            market, work_class = body["market"], body["work_class"]
            if start_ms < window_start_ms or end_ms > window_end_ms:
                start_ms, end_ms = max(start_ms, window_start_ms), min(end_ms, window_end_ms)
                if end_ms <= start_ms:
                    continue
            team = teams.get(body["team"])
            if team is None:
                team = teams[body["team"]] = TeamUse()
            if body.get("running_ms") == 0 and body["billable"] and work_class == _MARKET:
                team.idle_paid_macc_ms += (end_ms - start_ms) * macc
                self._rate(team, body, start_ms, end_ms)
                continue
            amounts = occupied.get((market, work_class))
            if amounts is None:
                amounts = occupied[market, work_class] = [0] * bins.count
            macc_ms = bins.add(amounts, start_ms, end_ms, macc)
            if work_class == _OPPORTUNISTIC:
                team.opportunistic_macc_ms += macc_ms
                continue
            if work_class == _MARKET:
                team.market_macc_ms += macc_ms
            else:
                team.overhang_macc_ms += macc_ms
            if body["billable"]:
                self._rate(team, body, start_ms, end_ms)

    def _rate(self, team: TeamUse, body: Mapping[str, Any], start_ms: int, end_ms: int) -> None:
        macc = body["quantity_macc"]
        history = self.prices.pools.get((body["market"], body["pool"]), self._unpriced)
        price_ms, unpriced_ms = history.integral(start_ms, end_ms, body["limit_micro"])
        team.numerator += price_ms * macc * body["tariff_ppm"]
        team.unpriced_macc_ms += unpriced_ms * macc
        team.rated_macc_ms += (end_ms - start_ms - unpriced_ms) * macc

    def macc_ms(self, market: str, *classes: WorkClass) -> list[int]:
        """Return use × time in each bin of a market, in the classes named."""
        amounts = [0] * self.bins.count
        for work_class in classes:
            for index, amount in enumerate(self.occupied.get((market, work_class.value), ())):
                amounts[index] += amount
        return amounts
