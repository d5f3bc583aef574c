"""An independent audit of ledger and balances on a log, by scans and plain loops.

It shares no code with billing. For each step it works out which boundaries that step settles, what
each team had earned by then by the documents, and what the charge lines before the step's barrier
add up to; from these totals follow the entries, to the last µcr and in their order.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from walras_contracts.identifiers import digest_of, partition_of
from walras_runtime.memory.log import MemoryLog

GRACE_MS = 60_000
BOUNDARY_MS = 300_000
HOUR_MS = 3_600_000
NUMERATORS = 36 * 10**14
COARSE = 10**36
Document = dict[str, Any]
KINDS = ("income", "usage", "credit", "expiry")
COUNTERS = {"income": "mint", "usage": "revenue", "credit": "credits", "expiry": "expired"}
GAINS = {"income": 1, "usage": -1, "credit": 1, "expiry": -1}


@dataclass
class Totals:
    """Exact running totals of one team in one pool by kind, and what is in the ledger of them."""

    now: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(KINDS, Fraction(0)))
    posted: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(KINDS, Fraction(0)))

    def in_wallet(self) -> int:
        return sum(GAINS[kind] * round(total) for kind, total in self.posted.items())


def payloads(log: MemoryLog, topic: str, partition: int) -> list[list[Document]]:
    """Return the payloads of a partition, step by step."""
    steps: list[list[Document]] = [[]]
    for entry in log.read(topic, partition, 0):
        if entry.barrier is not None:
            steps.append([])
        elif entry.payload is not None:
            steps[-1].append({"type": entry.type} | json.loads(entry.payload))
    return steps


class Audit:
    """One partition's ledger, worked out step by step."""

    def __init__(self, log: MemoryLog, partition: int) -> None:
        self._log = log
        self._partition = partition
        self._partitions = len(log.partitions("ledger"))
        self.totals: dict[str, dict[str, Totals]] = defaultdict(lambda: defaultdict(Totals))
        self._documents: dict[str, list[Document]] = defaultdict(list)

    def faults(self) -> Iterator[str]:
        """Yield where the ledger or a balance is not what it must be."""
        log, at = self._log, self._partition
        times = [e.barrier.market_time_ms for e in log.read("usage", at, 0) if e.barrier]
        accounts = [payloads(log, "accounts", p) for p in log.partitions("accounts")]
        charges, ledger = payloads(log, "charges", at), payloads(log, "ledger", at)
        balances = payloads(log, "balances", at)
        settled_ms: int | None = None
        for step, now_ms in enumerate(times):
            for of_partition in accounts:
                for change in of_partition[step]:
                    self._document(change)
            for line in charges[step]:
                kind = "credit" if line["type"] == "walras.charge.credited.v1" else "usage"
                amount = Fraction(int(line["amount_numerator"]), NUMERATORS)
                totals = self.totals[line["team"]][line["pool"]]
                totals.now[kind] += -amount if kind == "credit" else amount
            due_ms = (now_ms - GRACE_MS) // BOUNDARY_MS * BOUNDARY_MS
            expected: list[Document] = []
            first_ms = due_ms if settled_ms is None else settled_ms
            for boundary_ms in range(first_ms + BOUNDARY_MS, due_ms + 1, BOUNDARY_MS):
                expected += self._boundary(boundary_ms)
            written = [{k: v for k, v in e.items() if k != "type"} for e in ledger[step]]
            yield from _differences(step, written, expected)
            if settled_ms is not None and due_ms > settled_ms:
                yield from self._balances(step, balances[step], due_ms)
            elif balances[step]:
                yield f"step {step}: balances without a settlement"
            settled_ms = max(first_ms, due_ms)

    def _document(self, change: Document) -> None:
        document = change["document"]
        if document["kind"] != "market":
            key = document.get("pool", "")
            held = [d for d in self._documents[key] if d["version"] != change["version"]]
            self._documents[key] = sorted([*held, change], key=lambda c: c["version"])

    def _in_force(self, key: str, at_ms: int) -> Document | None:
        counting = [c for c in self._documents.get(key, []) if c["effective_ms"] <= at_ms]
        return counting[-1]["document"] if counting else None

    def _mine(self, team: str) -> bool:
        return partition_of(team, self._partitions) == self._partition

    def _earn(self, boundary_ms: int) -> None:
        """Add the income of the five minutes, cut at every instant at which a document counts."""
        start_ms = boundary_ms - BOUNDARY_MS
        for key in sorted(self._documents):
            cuts = {c["effective_ms"] for c in self._documents[key]}
            edges = sorted(
                {start_ms, boundary_ms, *(c for c in cuts if start_ms < c < boundary_ms)}
            )
            for at, begin_ms in enumerate(edges[:-1]):
                document = self._in_force(key, begin_ms)
                for member in document.get("teams", ()) if document else ():
                    if not self._mine(member["team"]):
                        continue
                    assert document is not None
                    local = sum(m["income_local_per_hour"] for m in document["teams"])
                    share = Fraction(member["income_local_per_hour"], local) if local else 0
                    hours = Fraction(edges[at + 1] - begin_ms, HOUR_MS)
                    total = self.totals[member["team"]][key]
                    total.now["income"] += document["weight_micro_per_hour"] * share * hours

    def _boundary(self, boundary_ms: int) -> list[Document]:
        self._earn(boundary_ms)
        platform = self._in_force("", boundary_ms)
        hours = platform["max_balance_hours"] if platform else 168
        hourly: dict[str, tuple[str, Fraction]] = {}
        for key in sorted(k for k in self._documents if k):
            document = self._in_force(key, boundary_ms)
            for member in document["teams"] if document else ():
                assert document is not None
                local = sum(m["income_local_per_hour"] for m in document["teams"]) or 1
                income = Fraction(
                    document["weight_micro_per_hour"] * member["income_local_per_hour"], local
                )
                hourly.setdefault(member["team"], (key, income))
        entries: list[Document] = []
        for team in sorted(self.totals):
            pools = self.totals[team]
            found = []
            for pool in sorted(pools):
                totals = pools[pool]
                if totals.now["income"].denominator > COARSE:
                    totals.now["income"] = Fraction(round(totals.now["income"] * 10**18), 10**18)
                found += [self._entry(kind, team, pool, boundary_ms) for kind in KINDS[:3]]
            home, income = hourly.get(team, ("", Fraction(0)))
            if income:
                excess = sum(t.in_wallet() for t in pools.values()) - int(income * hours)
                pools[home].now["expiry"] += max(0, excess)
                found.append(self._entry("expiry", team, home, boundary_ms))
            kept = [entry for entry in found if entry is not None]
            entries += sorted(kept, key=lambda e: (e["pool"], KINDS.index(e["kind"])))
        return entries

    def _entry(self, kind: str, team: str, pool: str, boundary_ms: int) -> Document | None:
        totals = self.totals[team][pool]
        before, after = totals.posted[kind], totals.now[kind]
        totals.posted[kind] = after
        wallet = GAINS[kind] * (round(after) - round(before))
        counter = -GAINS[kind] * (int(after) - int(before))
        moved = {
            f"{COUNTERS[kind]}/{pool}": counter,
            f"rounding/{pool}": -wallet - counter,
            f"wallet/{team}": wallet,
        }
        lines = [{"account": a, "amount_micro": m} for a, m in sorted(moved.items()) if m]
        if not lines:
            return None
        return {
            "entry_id": digest_of("ledger", kind, team, pool, str(boundary_ms)),
            "kind": kind,
            "team": team,
            "pool": pool,
            "boundary_ms": boundary_ms,
            "exact_total": f"{after.numerator}/{after.denominator}",
            "lines": lines,
        }

    def _balances(self, step: int, written: list[Document], due_ms: int) -> Iterator[str]:
        known = {team for team, pools in self.totals.items() if pools}
        if [b["team"] for b in written] != sorted({b["team"] for b in written} | known):
            yield f"step {step}: a balance is missing, double or out of order"
        for balance in written:
            pools = self.totals[balance["team"]].values()
            parts = {kind: sum(round(t.posted[kind]) for t in pools) for kind in KINDS}
            wallet = sum(GAINS[kind] * part for kind, part in parts.items())
            told = [balance[f"{name}_micro"] for name in ("earned", "spent", "credited", "expired")]
            if told != list(parts.values()) or balance["wallet_micro"] != wallet:
                yield f"step {step}: the balance of {balance['team']} is not the fold of its ledger"
            if balance["boundary_ms"] != due_ms:
                yield f"step {step}: the balance of {balance['team']} is of another boundary"


def faults(log: MemoryLog) -> list[str]:
    """Return what is wrong with the ledger of a log; empty: nothing."""
    return [fault for p in log.partitions("ledger") for fault in Audit(log, p).faults()]


def _differences(step: int, written: list[Document], expected: list[Document]) -> Iterator[str]:
    for entry in written:
        if sum(line["amount_micro"] for line in entry["lines"]):
            yield f"step {step}: the lines of {entry['entry_id']} do not sum to 0"
    if written == expected:
        return
    for entry in written:
        if entry not in expected:
            yield f"step {step}: {entry['kind']} of {entry['team']} was not to be {entry['lines']}"
    for entry in expected:
        if entry not in written:
            yield f"step {step}: {entry['kind']} of {entry['team']} had to be {entry['lines']}"
    if sorted(e["entry_id"] for e in written) == sorted(e["entry_id"] for e in expected):
        yield f"step {step}: the entries are out of order"
