"""What use must be charged, recomputed from the input alone, line by line.

It shares no code with billing. A record is first charged at the prices that lie before the first
barrier at or after its end and the grace; each later barrier that brings a price for its time
corrects it (docs/decisions/0013-charges-by-position.md). What begins before the look-back of the
barrier behind it is not charged.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.chaos.story import LOOK_BACK_MS
from walras_contracts.charges import ChargeCredited, ChargeRated, UsageQuarantined
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_contracts.work import DrainStatusChanged, UsageMetered
from walras_runtime.memory.log import MemoryLog

GRACE_MS: Final = 60_000
Document = dict[str, Any]
Pools = dict[str, int | None]
EVERY_POOL: Final = "*"
FREE: Final[Pools] = {EVERY_POOL: 0}
"""What a time without prices says where its policy lets use be free."""


class Line(NamedTuple):
    """What matters of a charge line, besides its id."""

    source: str
    seq: int
    team: str
    pool: str
    start_ms: int
    end_ms: int
    price_micro: int | None
    corrects: str | None
    previous_price_micro: int | None
    amount: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How charges differ from what the input says, as words; empty: not at all.

    ``doubled``: lines that are there more than once, and instants that two charges are for.
    """

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    wrong: tuple[str, ...]
    lines: int
    records: int

    def faults(self) -> list[str]:
        """Return all differences."""
        return [*self.lost, *self.doubled, *self.wrong]


@dataclass(slots=True)
class _Market:
    """Prices of a market: times, and for each what was said of it, with the barrier behind it."""

    times_ms: list[int] = field(default_factory=list)
    said: list[list[tuple[int, Pools]]] = field(default_factory=list)

    def put(self, at_ms: int, barrier: int, pools: Pools) -> None:
        place = bisect_left(self.times_ms, at_ms)
        if place == len(self.times_ms) or self.times_ms[place] != at_ms:
            self.times_ms.insert(place, at_ms)
            self.said.insert(place, [])
        self.said[place].append((barrier, pools))

    def known(self, place: int, barrier: int) -> Pools | None:
        """Return what was said last of a time in front of a barrier."""
        found = [pools for number, pools in self.said[place] if number <= barrier]
        return found[-1] if found else None

    def first(self, at_ms: int, barrier: int) -> int:
        """Return the place of what counts at an instant; 0 where nothing does."""
        place = bisect_right(self.times_ms, at_ms) - 1
        while place > 0 and self.known(place, barrier) is None:
            place -= 1
        return max(0, place)

    def parts(
        self, pool: str, start_ms: int, end_ms: int, barrier: int
    ) -> list[tuple[int, int, int | None]]:
        """Return the prices over a span, equal ones side by side as one."""
        found: list[tuple[int, int, int | None]] = [(start_ms, end_ms, None)]
        for place in range(self.first(start_ms, barrier), len(self.times_ms)):
            if self.times_ms[place] >= end_ms:
                break
            pools = self.known(place, barrier)
            if pools is None:
                continue
            begin_ms = max(start_ms, self.times_ms[place])
            price = pools.get(pool, pools.get(EVERY_POOL))
            last_ms, _, last_price = found.pop()
            if begin_ms > last_ms:
                found.append((last_ms, begin_ms, last_price))
            found.append((begin_ms, end_ms, price))
        merged: list[tuple[int, int, int | None]] = []
        for part in found:
            if merged and merged[-1][2] == part[2]:
                merged[-1] = (merged[-1][0], part[1], part[2])
            else:
                merged.append(part)
        return merged

    def later(self, start_ms: int, end_ms: int, barrier: int) -> list[int]:
        """Return the barriers behind one that brought anything for a span."""
        found: set[int] = set()
        for place in range(self.first(start_ms, barrier), len(self.times_ms)):
            if self.times_ms[place] >= end_ms:
                break
            found |= {number for number, _ in self.said[place] if number > barrier}
        return sorted(found)


@dataclass(slots=True)
class _Input:
    times_ms: list[int] = field(default_factory=list)
    """Market times of the barriers."""
    markets: dict[str, _Market] = field(default_factory=lambda: defaultdict(_Market))
    usage: dict[tuple[str, int], Document] = field(default_factory=dict)
    late: Counter[str] = field(default_factory=Counter)
    """Keys of the records that begin before the look-back of their barrier."""
    failed: dict[str, Document] = field(default_factory=dict)
    """Drains that failed, by lease and node."""


def judge(log: MemoryLog) -> Verdict:
    """Compare the charge lines of a log with what its usage and prices say."""
    given = _read(log)
    due = dict(_due(given))
    found: dict[str, Line] = {}
    count: Counter[str] = Counter()
    wrong: list[str] = []
    for line_id, line in _charged(log):
        count[line_id] += 1
        if found.setdefault(line_id, line) != line:
            wrong.append(f"{line_id}: two lines of that id differ")
    doubled = [
        f"{name}: {times} times: {found[name]}" for name, times in count.items() if times > 1
    ]
    doubled += _charged_twice(found.values())
    lost = [f"{name}: is not there: {line}" for name, line in due.items() if name not in found]
    for name, line in found.items():
        if name not in due:
            wrong.append(f"{name}: nothing says it: {line}")
        elif due[name] != line:
            wrong.append(f"{name}: {line}, not {due[name]}")
    wrong += _wrong_credits(given, due, log)
    wrong += _wrongly_quarantined(given, log)
    return Verdict(tuple(lost), tuple(doubled), tuple(wrong), count.total(), len(given.usage))


def _read(log: MemoryLog) -> _Input:
    given = _Input()
    for topic in ("prices", "usage", "drain.status"):
        for partition in log.partitions(topic):
            number = 0
            for entry in log.read(topic, partition, 0):
                if entry.barrier is not None:
                    number = entry.barrier.number + 1
                    if topic == "prices":
                        given.times_ms.append(entry.barrier.market_time_ms)
                    continue
                body: Document = json.loads(entry.payload or b"")
                if entry.type == PricePublished.TYPE:
                    pools: Pools = {p["pool"]: p["price_micro"] for p in body["pools"]}
                    given.markets[body["market"]].put(body["market_time_ms"], number, pools)
                elif entry.type == PriceGapPublished.TYPE:
                    # In a story there are prices for its end, and none within: where the last
                    # price goes on, nothing changes.
                    if body["policy"] == "unbilled":
                        given.markets[body["market"]].put(body["start_ms"], number, FREE)
                elif entry.type == UsageMetered.TYPE:
                    if body["start_ms"] < given.times_ms[number] - LOOK_BACK_MS:
                        given.late[entry.key] += 1
                    else:
                        given.usage.setdefault((_source(body), body["seq"]), body)
                elif entry.type == DrainStatusChanged.TYPE and body["state"] == "failed":
                    given.failed[f"{body['lease']}/{body['node']}"] = body
    return given


def _charged(log: MemoryLog) -> Iterator[tuple[str, Line]]:
    for partition in log.partitions("charges"):
        for entry in log.read("charges", partition, 0):
            if entry.type != ChargeRated.TYPE:
                continue
            body: Document = json.loads(entry.payload or b"")
            yield (
                body["charge_id"],
                Line(
                    *(_source(body), body["seq"], body["team"], body["pool"]),
                    *(body["start_ms"], body["end_ms"], body["price_micro"], body["corrects"]),
                    *(body["previous_price_micro"], int(body["amount_numerator"])),
                ),
            )


def _wrong_credits(given: _Input, due: dict[str, Line], log: MemoryLog) -> Iterator[str]:
    """Yield where a failed drain did not give back exactly what its time was charged.

    In a story use is cut at the warning, so a line is within a drain or outside of it.
    """
    owed: Counter[str] = Counter()
    for line in due.values():
        lease = line.source.rpartition("/")[0]
        drain = given.failed.get(lease)
        if drain is not None and drain["warned_ms"] <= line.start_ms < drain["at_ms"]:
            owed[lease] -= line.amount
    for partition in log.partitions("charges"):
        for entry in log.read("charges", partition, 0):
            if entry.type == ChargeCredited.TYPE:
                body: Document = json.loads(entry.payload or b"")
                owed[f"{body['lease']}/{body['node']}"] -= int(body["amount_numerator"])
    for lease, rest in sorted(owed.items()):
        if rest:
            yield f"{lease}: its failed drain gave back {-rest} too much"


def _charged_twice(lines: Iterable[Line]) -> Iterator[str]:
    """Yield where two charges are for the same instant of a lease on a node.

    In a story no use overlaps but what comes too late to be charged; so no two charges may.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        if line.corrects is None:
            spans[line.source.rpartition("/")[0]].append((line.start_ms, line.end_ms))
    for part, held in sorted(spans.items()):
        for (_, end_ms), (start_ms, _) in pairwise(sorted(held)):
            if start_ms < end_ms:
                yield f"{part}: [{start_ms}, {end_ms}) is charged twice"


def _wrongly_quarantined(given: _Input, log: MemoryLog) -> Iterator[str]:
    """Yield use that is quarantined though it is good, and late use that is not."""
    found: Counter[str] = Counter()
    for partition in log.partitions("usage.quarantined"):
        for entry in log.read("usage.quarantined", partition, 0):
            if entry.type == UsageQuarantined.TYPE:
                body: Document = json.loads(entry.payload or b"")
                if body["code"] == "rejected_late" and body["start_ms"] is None:
                    found[body["record"]] += 1
                else:
                    yield f"good use was quarantined: {body}"
    for key in sorted(found.keys() | given.late.keys()):
        if found[key] != given.late[key]:
            yield f"{key}: was rejected as late {found[key]} times, not {given.late[key]}"


def _due(given: _Input) -> Iterator[tuple[str, Line]]:
    """Yield all lines that the input says, with their ids."""
    for (source, seq), use in given.usage.items():
        cutoff = bisect_left(given.times_ms, use["end_ms"] + GRACE_MS)
        if cutoff == len(given.times_ms):
            continue
        yield from _Record(source, seq, use, given.markets[use["market"]]).lines(cutoff)


class _Record:
    """One usage record, and what it is charged step by step."""

    def __init__(self, source: str, seq: int, use: Document, market: _Market) -> None:
        self._source = source
        self._seq = seq
        self._use = use
        self._market = market
        self._free = use["work_class"] == "opportunistic" or not use["billable"]

    def lines(self, cutoff: int) -> Iterator[tuple[str, Line]]:
        """Yield the lines, the first prices being those in front of barrier ``cutoff``."""
        start_ms, end_ms = self._use["start_ms"], self._use["end_ms"]
        # What is charged so far: span, price, id of the charge.
        pieces: list[tuple[int, int, int | None, str | None]] = [(start_ms, end_ms, None, None)]
        later = [] if self._free else self._market.later(start_ms, end_ms, cutoff)
        for barrier in (cutoff, *later):
            after = []
            for piece in pieces:
                _, _, before, charge = piece
                for begin_ms, finish_ms, price in self._prices(piece[0], piece[1], barrier):
                    name, line = charge, None
                    if charge is None and price is not None:
                        name = _id("charge", f"{self._seq}/{begin_ms}/{self._source}")
                        line = self._line(begin_ms, finish_ms, price, None, None)
                        yield name, line
                    elif charge is not None and price != before:
                        line = self._line(begin_ms, finish_ms, price, charge, before)
                        yield _id("correct", f"{barrier}/{begin_ms}/{charge}"), line
                    after.append((begin_ms, finish_ms, price, name))
            pieces = after

    def _prices(
        self, start_ms: int, end_ms: int, barrier: int
    ) -> list[tuple[int, int, int | None]]:
        if self._free:
            return [(start_ms, end_ms, 0)]
        limit = self._use["limit_micro"]
        return [
            (begin_ms, finish_ms, price if price is None or limit is None else min(price, limit))
            for begin_ms, finish_ms, price in self._market.parts(
                self._use["pool"], start_ms, end_ms, barrier
            )
        ]

    def _line(
        self,
        start_ms: int,
        end_ms: int,
        price: int | None,
        corrects: str | None,
        before: int | None,
    ) -> Line:
        use = self._use
        weight = use["tariff_ppm"] * use["quantity_macc"] * (end_ms - start_ms)
        return Line(
            *(self._source, self._seq, use["team"], use["pool"], start_ms, end_ms, price),
            *(corrects, before, ((price or 0) - (before or 0)) * weight),
        )


def _source(body: Document) -> str:
    return f"{body['lease']}/{body['node']}/{body['attempt']}"


def _id(kind: str, text: str) -> str:
    return blake2b(text.encode(), digest_size=16, person=f"walras.{kind}".encode()).hexdigest()
