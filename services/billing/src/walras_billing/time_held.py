"""How long jobs held devices, and how that time was used: sums that are not published yet.

A line counts from the step on in which it is rated, with all that it keeps: charged, free or
waiting for its price. It counts at the boundary at or after its end, and is published when that
boundary, or a later one, is settled. What a line loses afterwards is subtracted, to be published at
the next settlement; so are the figures of a line that lost a part, since nobody knows in which part
it was busy.

Nothing is written for the usual line: after a restart the lines say it again. Only what they do not
say is kept: changes of what was published, lines that came late, lines that are forgotten.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from walras_billing.time_split import UNMEASURED, Split
from walras_billing.usage_line import Holder, UsageLine
from walras_contracts.quantities import SETTLEMENT_MS

Place = tuple[int, Holder]
"""A boundary and for whom devices were held."""


def boundary_of(end_ms: int) -> int:
    """Return the boundary at which a line counts, by its end."""
    return -(-end_ms // SETTLEMENT_MS) * SETTLEMENT_MS


@dataclass(slots=True)
class Sums:
    """Macc·ms by holder: all that was held, and what of it was occupied, allocated and idle."""

    held: dict[Holder, int] = field(default_factory=dict)
    split: dict[Holder, list[int]] = field(default_factory=dict)

    def add(self, holder: Holder, macc: int, held_ms: int, split: Split | None) -> None:
        """Add what so many macc held for some time; below 0 macc: subtract it."""
        held = self.held
        held[holder] = held.get(holder, 0) + macc * held_ms
        if split is not None:
            occupied_ms, allocated_ms, idle_ms = split
            known = self.split.get(holder)
            if known is None:
                self.split[holder] = [macc * occupied_ms, macc * allocated_ms, macc * idle_ms]
            else:
                known[0] += macc * occupied_ms
                known[1] += macc * allocated_ms
                known[2] += macc * idle_ms


class TimeHeld:
    """Sums by the boundary of use.

    ``settled_ms`` is the last boundary whose settlement published, ``settled_in_ms`` the market
    time of the step that did it; -1 before there was one.
    """

    def __init__(self) -> None:
        self.settled_ms = self.settled_in_ms = -1
        self.sums: dict[int, Sums] = {}
        self._kept: dict[int, Sums] = {}
        """Of the sums what no line in memory says."""
        self._changed: dict[Place, None] = {}
        self._written: dict[Place, None] = {}

    def at(self, end_ms: int) -> Sums:
        """Return where lines with an end count."""
        return _at(self.sums, boundary_of(end_ms))

    def count(self, line: UsageLine) -> None:
        """Count a line that is rated: once, for what it keeps."""
        terms = line.terms
        self.at(line.end_ms).add(terms.holder, terms.quantity_macc, line.kept_ms, line.split)

    def count_late(self, line: UsageLine) -> None:
        """Keep what a line counts for that came when its time was published already."""
        if self.is_published(line):
            self._keep(line, line.terms.quantity_macc, line.kept_ms)

    def lose(self, line: UsageLine, lost_ms: int) -> None:
        """Subtract a part that a line loses after it was counted, and what was measured of it."""
        terms = line.terms
        macc = -terms.quantity_macc
        self.at(line.end_ms).add(terms.holder, macc, lost_ms, line.split)
        if self.is_published(line):
            self._keep(line, macc, lost_ms)
        line.split = None

    def forget(self, line: UsageLine) -> None:
        """Keep what a line counts for that will be forgotten before it is published."""
        if not self.is_published(line):
            self._keep(line, line.terms.quantity_macc, line.kept_ms)

    def is_published(self, line: UsageLine) -> bool:
        """Whether what a line counted for when it was due has been published."""
        return line.until_ms <= self.settled_in_ms and line.end_ms <= self.settled_ms

    def settle(self, boundary_ms: int, now_ms: int) -> Iterator[tuple[int, Sums]]:
        """Yield the sums of use up to a boundary, which are published in the step at ``now_ms``."""
        for kept_ms in [at_ms for at_ms in self._kept if at_ms <= boundary_ms]:
            for holder in self._kept.pop(kept_ms).held:
                self._changed[kept_ms, holder] = None
        self.settled_ms, self.settled_in_ms = boundary_ms, now_ms
        for at_ms in sorted(at_ms for at_ms in self.sums if at_ms <= boundary_ms):
            yield at_ms, self.sums.pop(at_ms)

    def load(self, name: str, value: bytes) -> None:
        """Take back a record of the state topic."""
        boundary, team, job, market, pool = name.split("/")
        boundary_ms, holder = int(boundary), (team, job, market, pool)
        held, *split = json.loads(value)
        for sums in (self.sums, self._kept):
            _at(sums, boundary_ms).add(holder, 1, held, (split[0], split[1], split[2]))
        self._written[boundary_ms, holder] = None

    def changes(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield the records of the state topic that changed, and forget that they did."""
        for place in self._changed:
            boundary_ms, holder = place
            kept = self._kept.get(boundary_ms)
            if kept is not None and holder in kept.held:
                self._written[place] = None
                amounts = [kept.held[holder], *kept.split.get(holder, UNMEASURED)]
                yield _name(place), json.dumps(amounts, separators=(",", ":")).encode()
            elif place in self._written:
                del self._written[place]
                yield _name(place), None
        self._changed.clear()

    def _keep(self, line: UsageLine, macc: int, held_ms: int) -> None:
        boundary_ms, holder = boundary_of(line.end_ms), line.terms.holder
        _at(self._kept, boundary_ms).add(holder, macc, held_ms, line.split)
        self._changed[boundary_ms, holder] = None


def _at(sums: dict[int, Sums], boundary_ms: int) -> Sums:
    found = sums.get(boundary_ms)
    if found is None:
        found = sums[boundary_ms] = Sums()
    return found


def _name(place: Place) -> str:
    return f"{place[0]}/{'/'.join(place[1])}"
