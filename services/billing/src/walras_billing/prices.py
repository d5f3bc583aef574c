"""The price history in two times: from when a price counts, and since which barrier it is known.

A price counts from its market time until the next of its series. A pool that the record in force
does not name, or names without a price, has no known price then. A record of the same market time
that comes later takes the place of the earlier one, for those who know it.

A gap record is one at its start, which says that use is free or that the last price goes on, and
one at its end, from where on the last price counts again; usually a price comes in its place.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

PoolPrices = dict[str, int | None]
NO_BARRIER: Final = -1


class Gap(StrEnum):
    """What a record without prices of its own says from its time on."""

    FREE = "free"
    """Every pool's price is 0, however long."""
    CARRIED = "carried"
    """The last prices told by then count, however old."""
    ENDED = "ended"
    """The last prices told by then count as if there had been no gap."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a price record said, or a gap record in the place of one.

    It became known in the step of ``barrier``; the barrier before that one, which it lies behind,
    was at ``known_after_ms``.
    """

    barrier: int
    known_after_ms: int
    pools: PoolPrices
    gap: Gap | None = None


class View(NamedTuple):
    """What is known: what precedes the first barrier at or after ``until_ms``, or ``barrier``."""

    until_ms: int
    barrier: int = NO_BARRIER


class Segment(NamedTuple):
    """A price (µcr per accelerator-hour; None: unknown) in force over [start_ms, end_ms)."""

    start_ms: int
    end_ms: int
    price_micro: int | None
    barrier: int
    """Barrier by which its record became known; -1 without a record."""


class Told(NamedTuple):
    """What is in force: prices by pool (None: 0 for all) of a time, which may grow old or not."""

    since_ms: int
    pools: PoolPrices | None
    ages: bool
    barrier: int

    def price(self, pool: str) -> int | None:
        """Return the price of a pool; None: it has none that is known."""
        return 0 if self.pools is None else self.pools.get(pool)


LEANING: Final = (Gap.CARRIED, Gap.ENDED)


@dataclass(slots=True)
class _Series:
    times_ms: list[int] = field(default_factory=list)
    versions: list[list[Version]] = field(default_factory=list)
    """Of each time, in the order of barriers."""
    leaning: list[int] = field(default_factory=list)
    """Times of the gap records that lean on prices told before them."""

    def known(self, at: int, view: View, *, prices_only: bool = False) -> Version | None:
        """Return the last version of a time that the view knows."""
        for version in reversed(self.versions[at]):
            if prices_only and version.gap is not None:
                continue
            if version.known_after_ms < view.until_ms or version.barrier <= view.barrier:
                return version
        return None

    def told(self, at: int, version: Version, view: View) -> Told:
        """Return what a version of a time says."""
        since_ms = self.times_ms[at]
        if version.gap is None:
            return Told(since_ms, version.pools, True, version.barrier)
        if version.gap is Gap.FREE:
            return Told(since_ms, None, False, version.barrier)
        ages = version.gap is Gap.ENDED
        for before in range(at, -1, -1):
            last = self.known(before, view, prices_only=True)
            if last is not None:
                return Told(self.times_ms[before], last.pools, ages, last.barrier)
        return Told(since_ms, {}, ages, version.barrier)

    def base(self, at: int, view: View) -> int:
        """Return the index of the prices that the record of a time may lean on; itself, if none."""
        while at > 0 and self.known(at, view, prices_only=True) is None:
            at -= 1
        return at

    def before(self, at_ms: int, view: View) -> int:
        """Return the index of the last known time at or before an instant; -1: there is none."""
        at = bisect_right(self.times_ms, at_ms) - 1
        while at >= 0 and self.known(at, view) is None:
            at -= 1
        return at


class PriceHistory:
    """Prices by series (a market), in order of market time and of becoming known."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def put(self, series: str, effective_ms: int, version: Version) -> None:
        """Take a price record; of one step the last one for a time counts.

        Repeated prices are kept, too: one that comes late for a time between them must not reach
        beyond the next.
        """
        held = self._series.setdefault(series, _Series())
        at = bisect_left(held.times_ms, effective_ms)
        if at == len(held.times_ms) or held.times_ms[at] != effective_ms:
            held.times_ms.insert(at, effective_ms)
            held.versions.insert(at, [])
        versions = [v for v in held.versions[at] if v.barrier != version.barrier]
        held.versions[at] = sorted([*versions, version], key=_barrier)
        if version.gap in LEANING and effective_ms not in held.leaning:
            held.leaning.append(effective_ms)

    def put_gap(
        self, series: str, span: tuple[int, int], policy: Gap, version: Version
    ) -> list[int]:
        """Take a gap record: a policy over a span, and after it what counts without one.

        Prices of the same step for the same times take its place; where there are some for its end
        already, they stay.

        Returns
        -------
        list
            The times at which it stands in the history now.
        """
        start_ms, end_ms = span
        self.put(series, start_ms, replace(version, gap=policy))
        held = self._series[series]
        at = bisect_left(held.times_ms, end_ms)
        if at < len(held.times_ms) and held.times_ms[at] == end_ms:
            return [start_ms]
        self.put(series, end_ms, replace(version, gap=Gap.ENDED))
        return [start_ms, end_ms]

    def knows(self, series: str) -> bool:
        """Whether any record of a series was ever taken."""
        return series in self._series

    def segments(
        self,
        series: str,
        pool: str,
        span: tuple[int, int],
        view: View,
        max_age_ms: int | None = None,
    ) -> list[Segment]:
        """Return the prices of a pool over a span, cut where they change, as a view knows them.

        A price that is ``max_age_ms`` old is unknown. The segments cover the span without gap.
        """
        start_ms, end_ms = span
        held = self._series.get(series)
        found: list[Segment] = []
        at = held.before(start_ms, view) if held is not None else -1
        version = held.known(at, view) if held is not None and at >= 0 else None
        while start_ms < end_ms:
            told = (
                held.told(at, version, view) if held is not None and version is not None else None
            )
            at += 1
            following: Version | None = None
            while held is not None and at < len(held.times_ms) and held.times_ms[at] < end_ms:
                following = held.known(at, view)
                if following is not None:
                    break
                at += 1
            until_ms = held.times_ms[at] if held is not None and following is not None else end_ms
            _add(found, told, pool, (start_ms, until_ms), max_age_ms)
            version, start_ms = following, until_ms
        return found

    def in_force(self, series: str, pool: str, at_ms: int, view: View) -> tuple[int, int | None]:
        """Return since when a record is in force at an instant, and its price for the pool.

        Where a gap lets the last price go on, it is that one's time.

        Raises
        ------
        LookupError
            None is.
        """
        held = self._series.get(series)
        at = held.before(at_ms, view) if held is not None else -1
        version = held.known(at, view) if held is not None and at >= 0 else None
        if held is None or version is None:
            raise LookupError(f"no price of {series} is in force at {at_ms}")
        told = held.told(at, version, view)
        return told.since_ms, told.price(pool)

    def later_barriers(self, series: str, span: tuple[int, int], until_ms: int) -> set[int]:
        """Return the barriers at which a span's prices may have become others.

        Those are the steps of the records that the view of ``until_ms`` does not know and that
        count within the span, or for a time since the record that is in force at its start.
        """
        held = self._series.get(series)
        if held is None:
            return set()
        found: set[int] = set()
        view = View(until_ms)
        at = held.base(max(0, held.before(span[0], view)), view)
        while at < len(held.times_ms) and held.times_ms[at] < span[1]:
            found |= {v.barrier for v in held.versions[at] if v.known_after_ms >= until_ms}
            at += 1
        return found

    def prune(self, before_ms: int) -> Iterator[tuple[str, int, int]]:
        """Forget the prices that were superseded at or before an instant, for all who still ask.

        Those ask for later times and know at least what was known by then: a price that became
        known after it leaves the ones before it to whoever does not know it.

        Yields
        ------
        tuple
            Series, market time and barrier of each record that went.
        """
        least = View(before_ms + 1)
        for series in sorted(self._series):
            held = self._series[series]
            count = held.before(before_ms, least)
            if count <= 0:
                continue
            held.leaning = [at_ms for at_ms in held.leaning if at_ms >= held.times_ms[count]]
            for at_ms in held.leaning:
                # What a gap leans on stays as long as it.
                count = min(count, held.base(bisect_left(held.times_ms, at_ms), least))
            for time_ms, versions in zip(held.times_ms[:count], held.versions[:count], strict=True):
                for version in versions:
                    yield series, time_ms, version.barrier
            del held.times_ms[:count]
            del held.versions[:count]

    def dump(self, series: str, effective_ms: int, barrier: int) -> bytes:
        """Return one price record as a record of the state topic."""
        held = self._series[series]
        for version in held.versions[bisect_left(held.times_ms, effective_ms)]:
            if version.barrier == barrier:
                said = version.pools if version.gap is None else version.gap.value
                fields = [version.known_after_ms, said]
                return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        raise LookupError(f"no price of {series} at {effective_ms} is of barrier {barrier}")

    def load(self, series: str, effective_ms: int, barrier: int, value: bytes) -> None:
        """Take a price record as it was dumped."""
        known_after_ms, said = json.loads(value)
        gap = Gap(said) if isinstance(said, str) else None
        pools = said if gap is None else {}
        self.put(series, effective_ms, Version(barrier, known_after_ms, pools, gap))


def _add(
    found: list[Segment],
    told: Told | None,
    pool: str,
    span: tuple[int, int],
    max_age_ms: int | None,
) -> None:
    """Append what is told of [start, end).

    Equal prices side by side become one segment.
    """
    start_ms, end_ms = span
    barrier = told.barrier if told is not None else NO_BARRIER
    price = told.price(pool) if told is not None else None
    old_ms = end_ms
    if told is not None and told.ages and price is not None and max_age_ms is not None:
        old_ms = min(max(told.since_ms + max_age_ms, start_ms), end_ms)
    for begin_ms, finish_ms, micro in ((start_ms, old_ms, price), (old_ms, end_ms, None)):
        if begin_ms == finish_ms:
            continue
        if found and found[-1].price_micro == micro:
            found[-1] = found[-1]._replace(end_ms=finish_ms)
        else:
            found.append(Segment(begin_ms, finish_ms, micro, barrier))


def _barrier(version: Version) -> int:
    return version.barrier
