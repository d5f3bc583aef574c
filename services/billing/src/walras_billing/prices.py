"""The price history in two times: from when a price counts, and since which barrier it is known.

A price counts from its market time until the next of its series. A pool that the record in force
does not name, or names without a price, has no known price then. A record of the same market time
that comes later takes the place of the earlier one, for those who know it.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PoolPrices = dict[str, int | None]
NO_BARRIER: Final = -1


@dataclass(frozen=True, slots=True)
class Version:
    """What a price record said.

    It became known in the step of ``barrier``; the barrier before that one, which it lies behind,
    was at ``known_after_ms``.
    """

    barrier: int
    known_after_ms: int
    pools: PoolPrices


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


@dataclass(slots=True)
class _Series:
    times_ms: list[int] = field(default_factory=list)
    versions: list[list[Version]] = field(default_factory=list)
    """Of each time, in the order of barriers."""

    def known(self, at: int, view: View) -> Version | None:
        """Return the last version of a time that the view knows."""
        for version in reversed(self.versions[at]):
            if version.known_after_ms < view.until_ms or version.barrier <= view.barrier:
                return version
        return None

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
        since_ms = held.times_ms[at] if held is not None and at >= 0 else start_ms
        while start_ms < end_ms:
            at += 1
            following: Version | None = None
            while held is not None and at < len(held.times_ms) and held.times_ms[at] < end_ms:
                following = held.known(at, view)
                if following is not None:
                    break
                at += 1
            until_ms = held.times_ms[at] if held is not None and following is not None else end_ms
            _add(found, version, pool, (since_ms, start_ms, until_ms), max_age_ms)
            version, since_ms, start_ms = following, until_ms, until_ms
        return found

    def in_force(self, series: str, pool: str, at_ms: int, view: View) -> tuple[int, int | None]:
        """Return since when a record is in force at an instant, and its price for the pool.

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
        return held.times_ms[at], version.pools.get(pool)

    def later_barriers(self, series: str, span: tuple[int, int], until_ms: int) -> set[int]:
        """Return the barriers at which a span's prices may have become others.

        Those are the steps of the records that the view of ``until_ms`` does not know and that
        count within the span, or for a time since the record that is in force at its start.
        """
        held = self._series.get(series)
        if held is None:
            return set()
        found: set[int] = set()
        at = max(0, held.before(span[0], View(until_ms)))
        while at < len(held.times_ms) and held.times_ms[at] < span[1]:
            found |= {v.barrier for v in held.versions[at] if v.known_after_ms >= until_ms}
            at += 1
        return found

    def prune(self, before_ms: int) -> Iterator[tuple[str, int, int]]:
        """Forget the prices that were superseded at or before an instant.

        Yields
        ------
        tuple
            Series, market time and barrier of each record that went.
        """
        for series in sorted(self._series):
            held = self._series[series]
            count = bisect_right(held.times_ms, before_ms) - 1
            if count <= 0:
                continue
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
                fields = [version.known_after_ms, version.pools]
                return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        raise LookupError(f"no price of {series} at {effective_ms} is of barrier {barrier}")

    def load(self, series: str, effective_ms: int, barrier: int, value: bytes) -> None:
        """Take a price record as it was dumped."""
        known_after_ms, pools = json.loads(value)
        self.put(series, effective_ms, Version(barrier, known_after_ms, pools))


def _add(
    found: list[Segment],
    version: Version | None,
    pool: str,
    times_ms: tuple[int, int, int],
    max_age_ms: int | None,
) -> None:
    """Append what a record that counts since an instant says of [start, end).

    Equal prices side by side become one segment.
    """
    since_ms, start_ms, end_ms = times_ms
    barrier = version.barrier if version is not None else NO_BARRIER
    price = version.pools.get(pool) if version is not None else None
    old_ms = end_ms
    if price is not None and max_age_ms is not None:
        old_ms = min(max(since_ms + max_age_ms, start_ms), end_ms)
    for begin_ms, finish_ms, micro in ((start_ms, old_ms, price), (old_ms, end_ms, None)):
        if begin_ms == finish_ms:
            continue
        if found and found[-1].price_micro == micro:
            found[-1] = found[-1]._replace(end_ms=finish_ms)
        else:
            found.append(Segment(begin_ms, finish_ms, micro, barrier))


def _barrier(version: Version) -> int:
    return version.barrier
