"""An independent audit of the charge lines on a log, by scans and plain loops.

It shares no code with billing: for each usage record it looks up which prices precede which
barrier, and adds up what the record must cost now and what its first lines had to say.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from walras_runtime.memory.log import MemoryLog

GRACE_MS = 60_000
Document = dict[str, Any]
Use = tuple[int, Document]


@dataclass
class Log:
    """What a log says: barrier times, prices and usage with the barrier behind each."""

    barriers: list[int] = field(default_factory=list)
    prices: list[tuple[int, Document]] = field(default_factory=list)
    usage: dict[tuple[str, int], Use] = field(default_factory=dict)
    by_source: dict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))
    charges: list[Document] = field(default_factory=list)

    def price(self, use: Document, at_ms: int, barrier: int) -> int | None:
        """Return what is charged at an instant, by the prices known by a barrier."""
        if use["work_class"] == "opportunistic" or not use["billable"]:
            return 0
        known = [
            (price["market_time_ms"], behind, number, price)
            for number, (behind, price) in enumerate(self.prices)
            if price["market"] == use["market"]
            and behind <= barrier
            and price["market_time_ms"] <= at_ms
        ]
        if not known:
            return None
        pools = {p["pool"]: p["price_micro"] for p in max(known, key=lambda k: k[:3])[3]["pools"]}
        price: int | None = pools.get(use["pool"])
        limit = use["limit_micro"]
        return price if price is None or limit is None else min(price, limit)

    def cutoff(self, use: Document) -> int | None:
        """Return the first barrier at or after end and grace; None: it has not come."""
        until_ms = use["end_ms"] + GRACE_MS
        found = [number for number, at_ms in enumerate(self.barriers) if at_ms >= until_ms]
        return found[0] if found else None

    def edges(self, use: Document) -> list[int]:
        """Return all instants within a record at which anything may change."""
        cuts = {price["market_time_ms"] for _, price in self.prices}
        for other in self.by_source[source_of(use)]:
            cuts |= {other["start_ms"], other["end_ms"]}
        inside = {at for at in cuts if use["start_ms"] < at < use["end_ms"]}
        return sorted({use["start_ms"], use["end_ms"], *inside})

    def is_claimed(self, use: Document, at_ms: int) -> bool:
        """Whether a lower number of the source covers an instant."""
        return any(
            other["seq"] < use["seq"] and other["start_ms"] <= at_ms < other["end_ms"]
            for other in self.by_source[source_of(use)]
        )


def read(log: MemoryLog) -> Log:
    """Read what the audit needs. A record that billing quarantined whole is left out."""
    found = Log()
    out = set()
    for partition in log.partitions("usage.quarantined"):
        for entry in log.read("usage.quarantined", partition, 0):
            body = json.loads(entry.payload or b"{}") if entry.barrier is None else {}
            if "code" in body and body["start_ms"] is None:
                out.add((body["partition"], body["offset"]))
    for topic in ("prices", "usage", "charges"):
        for partition in log.partitions(topic):
            number = 0
            for entry in log.read(topic, partition, 0):
                if entry.barrier is not None:
                    number = entry.barrier.number + 1
                    if topic == "usage" and partition == 0:
                        found.barriers.append(entry.barrier.market_time_ms)
                elif topic == "prices":
                    found.prices.append((number, json.loads(entry.payload or b"")))
                elif topic == "charges":
                    found.charges.append(json.loads(entry.payload or b""))
                elif (partition, entry.offset) not in out:
                    use = json.loads(entry.payload or b"")
                    if (source_of(use), use["seq"]) not in found.usage:
                        found.usage[source_of(use), use["seq"]] = (number, use)
                        found.by_source[source_of(use)].append(use)
    return found


def source_of(document: Document) -> str:
    """Name of the source of a usage record or a charge line."""
    return f"{document['lease']}/{document['node']}/{document['attempt']}"


def faults(log: MemoryLog) -> list[str]:
    """Return what is wrong with the charge lines of a log; empty: nothing."""
    found = read(log)
    wrong: list[str] = []
    by_record: dict[tuple[str, int], list[Document]] = defaultdict(list)
    for line in found.charges:
        by_record[source_of(line), line["seq"]].append(line)
    ids = [line["charge_id"] for line in found.charges]
    wrong += [f"{name}: twice" for name in sorted({i for i in ids if ids.count(i) > 1})]
    for key in by_record.keys() - found.usage.keys():
        wrong.append(f"{key}: charged, but nobody used it")
    for key, (_, use) in sorted(found.usage.items()):
        lines = by_record.get(key, [])
        if found.cutoff(use) is None:
            wrong += [f"{key}: charged before it was due"] if lines else []
            continue
        wrong += _wrong_sum(found, key, use, lines)
        wrong += _wrong_lines(found, key, use, lines)
    return wrong


def _wrong_sum(found: Log, key: tuple[str, int], use: Document, lines: list[Document]) -> list[str]:
    """The lines of a record add up to what it costs by all that is known now."""
    edges = found.edges(use)
    total = 0
    for start_ms, end_ms in pairwise(edges):
        if not found.is_claimed(use, start_ms):
            price = found.price(use, start_ms, len(found.barriers)) or 0
            total += price * use["tariff_ppm"] * use["quantity_macc"] * (end_ms - start_ms)
    charged = sum(int(line["amount_numerator"]) for line in lines)
    return [] if charged == total else [f"{key}: charged {charged}, costs {total}"]


def _wrong_lines(
    found: Log, key: tuple[str, int], use: Document, lines: list[Document]
) -> list[str]:
    """First lines are at the price of the position rule; corrections name one that they are of."""
    wrong = []
    cutoff = found.cutoff(use)
    assert cutoff is not None
    charges = {line["charge_id"]: line for line in lines if line["corrects"] is None}
    spans = sorted((line["start_ms"], line["end_ms"]) for line in charges.values())
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        wrong.append(f"{key}: an instant is charged twice")
    for line in lines:
        if not use["start_ms"] <= line["start_ms"] < line["end_ms"] <= use["end_ms"]:
            wrong.append(f"{key}: {line['charge_id']} is outside its record")
        difference = (line["price_micro"] or 0) - (line["previous_price_micro"] or 0)
        length_ms = line["end_ms"] - line["start_ms"]
        amount = difference * use["tariff_ppm"] * use["quantity_macc"] * length_ms
        if int(line["amount_numerator"]) != amount:
            wrong.append(f"{key}: {line['charge_id']} is not its prices times its use")
        if line["corrects"] is not None:
            corrected = charges.get(line["corrects"])
            if corrected is None or not (
                corrected["start_ms"] <= line["start_ms"] < line["end_ms"] <= corrected["end_ms"]
            ):
                wrong.append(f"{key}: {line['charge_id']} corrects nothing")
            continue
        inside = [e for e in found.edges(use) if line["start_ms"] <= e < line["end_ms"]]
        for at_ms in {line["start_ms"], *inside}:
            then = found.price(use, at_ms, cutoff)
            if then is None:
                then = found.price(use, at_ms, line["price_barrier"])
            if then != line["price_micro"]:
                wrong.append(f"{key}: {at_ms} first charged at {line['price_micro']}, not {then}")
    return wrong
