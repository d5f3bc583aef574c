"""Use that was accepted and not rated yet, or waits for its price: what it will cost by team.

Records that were accepted are kept as they are, by team: each comes and goes once, while only the
teams with budgets are asked what theirs will cost. Parts that wait for a price may be many and are
kept as weight (tariff × macc × ms) by what decides their price and by stretches of 5 minutes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from walras_billing.rating import Piece, weight
from walras_billing.spending import Window
from walras_billing.usage_line import UsageLine
from walras_contracts.quantities import SETTLEMENT_MS

STRETCH_MS: Final = SETTLEMENT_MS
"""Windows of the calendar begin at multiples of it."""


class Kind(NamedTuple):
    """What decides the price of use."""

    series: str
    pool: str
    limit_micro: int | None


class UnratedUse:
    """Records by team; weights by team, kind and stretch; nothing is kept of what is 0."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[UsageLine, None]] = {}
        self._waiting: dict[str, dict[Kind, dict[int, int]]] = {}

    def accept(self, line: UsageLine) -> None:
        """Count a record that was taken; what it loses to overlaps counts until it is rated."""
        if not line.terms.is_free:
            team = line.terms.team
            lines = self._lines.get(team)
            if lines is None:
                lines = self._lines[team] = {}
            lines[line] = None

    def rate(self, line: UsageLine) -> None:
        """Count a record no more: it is rated now."""
        if not line.terms.is_free:
            team = line.terms.team
            lines = self._lines[team]
            del lines[line]
            if not lines:
                del self._lines[team]

    def follow(self, line: UsageLine, before: Sequence[Piece], after: Sequence[Piece]) -> None:
        """Count the parts of a rated record that wait for their price, as they are now."""
        for pieces, sign in ((before, -1), (after, 1)):
            for piece in pieces:
                if piece.price_micro is None:
                    self._add(line, piece.start_ms, piece.end_ms, sign)

    def cost(
        self,
        team: str,
        windows: Sequence[Window],
        price_micro: Callable[[str, str], int | None],
    ) -> list[int]:
        """Return what a team's use in each window costs, as numerators.

        Parameters
        ----------
        team
            Whose use.
        windows
            By the start of each stretch.
        price_micro
            The newest price of a series for a pool; what has none counts nothing yet.
        """
        found = [0] * len(windows)
        for line in self._lines.get(team, ()):
            terms = line.terms
            price = price_micro(terms.series, terms.pool)
            if price is not None:
                rate = _charged(price, terms.limit_micro) * weight(line)
                for stretch_ms, length_ms in _stretches(line.start_ms, line.end_ms):
                    _count(found, windows, stretch_ms, rate * length_ms)
        for kind, stretches in self._waiting.get(team, {}).items():
            price = price_micro(kind.series, kind.pool)
            if price is not None:
                price = _charged(price, kind.limit_micro)
                for stretch_ms, total in stretches.items():
                    _count(found, windows, stretch_ms, price * total)
        return found

    def _add(self, line: UsageLine, start_ms: int, end_ms: int, sign: int) -> None:
        terms = line.terms
        if terms.is_free or not weight(line):
            # At no price would it cost anything.
            return
        kinds = self._waiting.setdefault(terms.team, {})
        kind = Kind(terms.series, terms.pool, terms.limit_micro)
        stretches = kinds.setdefault(kind, {})
        for stretch_ms, length_ms in _stretches(start_ms, end_ms):
            total = stretches.get(stretch_ms, 0) + sign * weight(line) * length_ms
            if total:
                stretches[stretch_ms] = total
            else:
                del stretches[stretch_ms]
        if not stretches:
            del kinds[kind]
            if not kinds:
                del self._waiting[terms.team]


def _stretches(start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the start of each stretch that an interval reaches into, and how long it does."""
    while start_ms < end_ms:
        stretch_ms = start_ms // STRETCH_MS * STRETCH_MS
        until_ms = min(end_ms, stretch_ms + STRETCH_MS)
        yield stretch_ms, until_ms - start_ms
        start_ms = until_ms


def _charged(price_micro: int, limit_micro: int | None) -> int:
    return price_micro if limit_micro is None else min(price_micro, limit_micro)


def _count(found: list[int], windows: Sequence[Window], stretch_ms: int, numerator: int) -> None:
    for index, (begin_ms, finish_ms) in enumerate(windows):
        if begin_ms <= stretch_ms < finish_ms:
            found[index] += numerator
