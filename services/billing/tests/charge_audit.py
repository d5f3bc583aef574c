"""An independent audit of the charge lines on a log, by scans and plain loops.

It shares no code with billing: for each usage record it looks up which prices precede which
barrier, and adds up what the record must cost now and what its first lines had to say. Credits are
compared with charges instant by instant.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from walras_runtime.memory.log import MemoryLog

GRACE_MS = 60_000
Document = dict[str, Any]
Use = tuple[int, Document]


@dataclass
class Log:
    """What a log says: barrier times, prices and usage with the barrier behind each.

    ``prices`` and ``gaps`` are with the barrier behind each; ``told`` is what they say: from when,
    behind which barrier, as a price or not, and the record or what a gap says. ``failures`` are
    spans of leases that failed drains give back, ``ended`` the records before a gap for ever.
    """

    barriers: list[int] = field(default_factory=list)
    prices: list[tuple[int, Document]] = field(default_factory=list)
    gaps: list[tuple[int, Document]] = field(default_factory=list)
    told: list[tuple[int, int, bool, int, str, Document | str]] = field(default_factory=list)
    usage: dict[tuple[str, int], Use] = field(default_factory=dict)
    by_part: dict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))
    charges: list[Document] = field(default_factory=list)
    credits: list[Document] = field(default_factory=list)
    failures: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    ended: set[tuple[str, int]] = field(default_factory=set)

    def price(self, use: Document, at_ms: int, barrier: int) -> int | None:
        """Return what is charged at an instant, by the prices known by a barrier."""
        if use["work_class"] == "opportunistic" or not use["billable"]:
            return 0
        known = [
            told
            for told in self.told
            if told[4] == use["market"] and told[1] <= barrier and told[0] <= at_ms
        ]
        if not known:
            return None
        last = max(known, key=lambda told: told[:4])
        if last[5] == "free":
            return 0
        if not last[2]:
            # A gap: the last price told for its time or before goes on.
            before = [told for told in known if told[2] and told[0] <= last[0]]
            if not before:
                return None
            last = max(before, key=lambda told: told[:4])
        document = last[5]
        assert not isinstance(document, str)
        price: int | None = {p["pool"]: p["price_micro"] for p in document["pools"]}.get(
            use["pool"]
        )
        limit = use["limit_micro"]
        return price if price is None or limit is None else min(price, limit)

    def cutoff(self, use: Document) -> int | None:
        """Return the first barrier at or after end and grace; None: it has not come."""
        until_ms = use["end_ms"] + GRACE_MS
        found = [number for number, at_ms in enumerate(self.barriers) if at_ms >= until_ms]
        return found[0] if found else None

    def edges(self, use: Document) -> list[int]:
        """Return all instants within a record at which anything may change."""
        cuts = {told[0] for told in self.told}
        for other in self.by_part[part_of(use)]:
            cuts |= {other["start_ms"], other["end_ms"]}
        inside = {at for at in cuts if use["start_ms"] < at < use["end_ms"]}
        return sorted({use["start_ms"], use["end_ms"], *inside})

    def is_claimed(self, use: Document, at_ms: int) -> bool:
        """Whether a lower attempt, or a lower number of the same, covers an instant."""
        return any(
            (other["attempt"], other["seq"]) < (use["attempt"], use["seq"])
            and other["start_ms"] <= at_ms < other["end_ms"]
            for other in self.by_part[part_of(use)]
        )

    def understand(self) -> None:
        """Say what prices and gaps tell, once all of them are read."""
        for number, (behind, price) in enumerate(self.prices):
            self.told.append(
                (price["market_time_ms"], behind, True, number, price["market"], price)
            )
        for number, (behind, gap) in enumerate(self.gaps):
            says = "free" if gap["policy"] == "unbilled" else "carried"
            market, end_ms = gap["market"], gap["end_ms"]
            self.told.append((gap["start_ms"], behind, False, number, market, says))
            is_priced = any(
                told[0] == end_ms and told[1] <= behind and told[4] == market for told in self.told
            )
            if not is_priced:
                self.told.append((end_ms, behind, False, number, market, "ended"))


def read(log: MemoryLog) -> Log:
    """Read what the audit needs. A record that billing quarantined whole is left out."""
    found = Log()
    out = set()
    for partition in log.partitions("usage.quarantined"):
        for entry in log.read("usage.quarantined", partition, 0):
            body = json.loads(entry.payload or b"{}") if entry.barrier is None else {}
            if "code" in body and body["start_ms"] is None:
                out.add((body["topic"], body["partition"], body["offset"]))
            if body.get("ended") == "never":
                found.ended.add((source_of(body), body["first_seq"] - 1))
    for topic in ("prices", "usage", "drain.status", "charges"):
        for partition in log.partitions(topic):
            number = 0
            for entry in log.read(topic, partition, 0):
                if entry.barrier is not None:
                    number = entry.barrier.number + 1
                    if topic == "usage" and partition == 0:
                        found.barriers.append(entry.barrier.market_time_ms)
                    continue
                body = json.loads(entry.payload or b"{}")
                if topic == "prices":
                    kept = found.gaps if "policy" in body else found.prices
                    kept.append((number, body))
                elif topic == "charges":
                    kept_lines = found.credits if "credits" in body else found.charges
                    kept_lines.append(body)
                elif (topic, partition, entry.offset) in out:
                    continue
                elif topic == "drain.status":
                    if body["state"] == "failed":
                        span = (body["warned_ms"], body["at_ms"])
                        found.failures[f"{body['team']}/{body['lease']}"].append(span)
                elif (source_of(body), body["seq"]) not in found.usage:
                    found.usage[source_of(body), body["seq"]] = (number, body)
                    found.by_part[part_of(body)].append(body)
    found.understand()
    return found


def part_of(document: Document) -> str:
    """Name of what holds devices: a lease on a node, in whatever attempt."""
    return f"{document['lease']}/{document['node']}"


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
    ids = [line["charge_id"] for line in (*found.charges, *found.credits)]
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
    return [*wrong, *_twice(found.charges), *_wrong_credits(found, by_record)]


def charged_twice(log: MemoryLog) -> list[str]:
    """Return where an instant of a lease on a node is charged twice, by the charge lines alone."""
    return [*_twice(read(log).charges)]


def _twice(charges: list[Document]) -> Iterator[str]:
    """Yield the spans that two charges are for which no correction takes back.

    What a charge line with the reason ``usage`` is for, ``overlap`` takes back; late prices change
    what it costs, not whether it is charged.
    """
    sign = {"usage": 1, "overlap": -1, "late_price": 0}
    steps: dict[str, Counter[int]] = defaultdict(Counter)
    for line in charges:
        steps[part_of(line)][line["start_ms"]] += sign[line["reason"]]
        steps[part_of(line)][line["end_ms"]] -= sign[line["reason"]]
    for part, changes in sorted(steps.items()):
        count = 0
        for start_ms, end_ms in pairwise(sorted(changes)):
            count += changes[start_ms]
            if count not in {0, 1}:
                yield f"{part}: [{start_ms}, {end_ms}) is charged {count} times"


def _wrong_credits(found: Log, by_record: dict[tuple[str, int], list[Document]]) -> list[str]:
    """At each instant all that is charged is given back, or nothing is."""
    wrong = []
    given: dict[tuple[str, int], list[Document]] = defaultdict(list)
    for credit in found.credits:
        given[source_of(credit), credit["seq"]].append(credit)
    for key in sorted(by_record.keys() | given.keys()):
        lines, back = by_record.get(key, []), given.get(key, [])
        ids = {line["charge_id"]: line for line in lines}
        for credit in back:
            line = ids.get(credit["credits"], {"start_ms": 1, "end_ms": 0})
            if not line["start_ms"] <= credit["start_ms"] < credit["end_ms"] <= line["end_ms"]:
                wrong.append(f"{key}: {credit['charge_id']} gives back what was not charged")
            text = f"{credit['reason']}/{credit['start_ms']}/{credit['credits']}".encode()
            name = blake2b(text, digest_size=16, person=b"walras.credit").hexdigest()
            if credit["charge_id"] != name:
                wrong.append(f"{key}: {credit['charge_id']} should be {name}")
        if not lines:
            continue
        claims = found.failures.get(f"{lines[0]['team']}/{lines[0]['lease']}", [])
        edges = {at for line in (*lines, *back) for at in (line["start_ms"], line["end_ms"])}
        inside = {at for claim in claims for at in claim if min(edges) < at < max(edges)}
        for at_ms in sorted(edges | inside)[:-1]:
            is_given = key in found.ended or any(a <= at_ms < b for a, b in claims)
            owed = -_rate(lines, at_ms) if is_given else 0
            if _rate(back, at_ms) != owed:
                wrong.append(f"{key}: {at_ms} was given back {_rate(back, at_ms)}, not {owed}")
    return wrong


def _rate(lines: list[Document], at_ms: int) -> Fraction:
    """Add up what lines say of an instant, per ms."""
    return sum(
        (
            Fraction(int(line["amount_numerator"]), line["end_ms"] - line["start_ms"])
            for line in lines
            if line["start_ms"] <= at_ms < line["end_ms"]
        ),
        Fraction(0),
    )


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
