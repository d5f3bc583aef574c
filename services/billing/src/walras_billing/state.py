"""What billing remembers: wallets, prices, usage within the look-back, what was settled."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from walras_billing.accounts import AccountBook
from walras_billing.prices import PriceHistory, Version
from walras_billing.sources import Source, UsageBook
from walras_billing.time_buckets import TimeBuckets
from walras_billing.usage_line import UsageLine
from walras_billing.wallets import Wallet
from walras_runtime.records import StateChange

WALLET: Final = "wallet/"
PRICE: Final = "price/"
LINE: Final = "line/"
MISSING: Final = "missing/"
CLOCK_KEY: Final = "clock"
BEFORE_ALL_MS: Final = -1


@dataclass(slots=True)
class BillingState:
    """State of one partition of teams."""

    accounts: AccountBook = field(default_factory=AccountBook)
    prices: PriceHistory = field(default_factory=PriceHistory)
    usage: UsageBook = field(default_factory=UsageBook)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    settled_ms: int | None = None
    """The last settled boundary; None before the first step."""
    clock_ms: int = BEFORE_ALL_MS
    """Market time of the last step."""
    rated_until_ms: int = BEFORE_ALL_MS
    """Latest end of the lines rated so far."""
    due: TimeBuckets[UsageLine] = field(default_factory=TimeBuckets)
    """Lines by when they are rated."""
    old: TimeBuckets[str] = field(default_factory=TimeBuckets)
    """Sources by the ends of their lines."""
    overdue: dict[str, None] = field(default_factory=dict)
    """Sources with lines beyond the look-back that still wait for a price."""
    changed: dict[str, bytes | None] = field(default_factory=dict)
    """Records of the state topic to be written in this step; wallets are dumped at its end."""
    _loaded: list[UsageLine] = field(default_factory=list)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        kind, _, name = key.partition("/")
        if key == CLOCK_KEY:
            self.clock_ms, self.settled_ms = json.loads(value)
        elif kind == "wallet":
            self.wallets[name] = Wallet.parse(name, value)
        elif kind == "price":
            series, time_ms, barrier = name.split("/")
            self.prices.load(series, int(time_ms), int(barrier), value)
        elif kind == "missing":
            held = self.usage.sources.setdefault(name, Source())
            held.missing = [(first, end) for first, end in json.loads(value)]
        else:
            line = UsageLine.parse(value)
            self.usage.load(line)
            self._loaded.append(line)

    def resume(self) -> None:
        """Arrange what was loaded by time, once all of it is there."""
        for line in self._loaded:
            self.old.put(line.end_ms, line.terms.source)
            if line.until_ms > self.clock_ms:
                self.due.put(line.until_ms, line)
            else:
                self.rated_until_ms = max(self.rated_until_ms, line.end_ms)
        self._loaded.clear()

    def wallet(self, team: str, pool: str) -> Wallet:
        """Return a team's wallet, an empty one at first, marked as changed."""
        self.changed[WALLET + team] = None
        wallet = self.wallets.get(team)
        if wallet is None:
            wallet = self.wallets[team] = Wallet(team, pool)
        return wallet

    def put_price(self, series: str, effective_ms: int, version: Version) -> None:
        """Take a price record."""
        self.prices.put(series, effective_ms, version)
        key = f"{PRICE}{series}/{effective_ms}/{version.barrier}"
        self.changed[key] = self.prices.dump(series, effective_ms, version.barrier)

    def prune_prices(self, before_ms: int) -> None:
        """Forget the prices that were superseded at or before an instant."""
        for series, time_ms, barrier in self.prices.prune(before_ms):
            self.changed[f"{PRICE}{series}/{time_ms}/{barrier}"] = None

    def keep(self, line: UsageLine) -> None:
        """Write a line that is new or has changed."""
        self.changed[LINE + line.key] = line.dump()

    def drop(self, line: UsageLine) -> None:
        """Remove a forgotten line."""
        self.changed[LINE + line.key] = None

    def changes(self) -> Iterator[StateChange]:
        """Yield what changed in this step, by key, and forget that it did."""
        for name in self.usage.changed:
            held = self.usage.sources.get(name)
            missing = held.missing if held is not None else []
            self.changed[MISSING + name] = json.dumps(missing).encode() if missing else None
        self.usage.changed.clear()
        self.changed[CLOCK_KEY] = json.dumps([self.clock_ms, self.settled_ms]).encode()
        for key in sorted(self.changed):
            value = self.changed[key]
            if key.startswith(WALLET):
                value = self.wallets[key.removeprefix(WALLET)].dump()
            yield StateChange(key, value)
        self.changed.clear()
