"""What billing remembers: wallets, prices, usage whose price is not known, what was settled."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from walras_billing.accounts import AccountBook
from walras_billing.prices import PriceHistory
from walras_billing.wallets import Wallet
from walras_contracts.work import UsageMetered
from walras_runtime.records import StateChange

WALLET: Final = "wallet/"
PRICE: Final = "price/"
PENDING: Final = "pending/"
SETTLED_KEY: Final = "settled"


@dataclass(slots=True)
class BillingState:
    """State of one partition of teams."""

    accounts: AccountBook = field(default_factory=AccountBook)
    prices: PriceHistory = field(default_factory=PriceHistory)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    pending: dict[str, dict[str, UsageMetered]] = field(default_factory=dict)
    """Usage that could not be rated yet, by market, then by record key."""
    settled_ms: int | None = None
    """The last settled boundary; None before the first step."""
    changed: dict[str, None] = field(default_factory=dict)
    """Records of the state topic to be written in this step."""

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        kind, _, name = key.partition("/")
        if key == SETTLED_KEY:
            self.settled_ms = json.loads(value)
        elif kind == "wallet":
            self.wallets[name] = Wallet.parse(name, value)
        elif kind == "price":
            market, _, time_ms = name.partition("/")
            self.prices.load(market, int(time_ms), json.loads(value))
        else:
            usage = UsageMetered.model_validate_json(value, extra="ignore")
            self.pending.setdefault(usage.market, {})[name] = usage

    def wallet(self, team: str, pool: str) -> Wallet:
        """Return a team's wallet, an empty one at first, marked as changed."""
        self.changed[WALLET + team] = None
        wallet = self.wallets.get(team)
        if wallet is None:
            wallet = self.wallets[team] = Wallet(team, pool)
        return wallet

    def hold(self, usage: UsageMetered) -> None:
        """Keep usage until it can be rated."""
        key = usage.record_key()
        self.pending.setdefault(usage.market, {})[key] = usage
        self.changed[PENDING + key] = None

    def let_go(self, usage: UsageMetered) -> None:
        """Forget usage that was rated."""
        key = usage.record_key()
        del self.pending[usage.market][key]
        if not self.pending[usage.market]:
            del self.pending[usage.market]
        self.changed[PENDING + key] = None

    def changes(self) -> Iterator[StateChange]:
        """Yield what changed in this step, by key, and forget that it did."""
        waiting = {key: usage for held in self.pending.values() for key, usage in held.items()}
        for key in sorted(self.changed):
            kind, _, name = key.partition("/")
            if key == SETTLED_KEY:
                yield StateChange(key, json.dumps(self.settled_ms).encode())
            elif kind == "wallet":
                yield StateChange(key, self.wallets[name].dump())
            elif kind == "price":
                market, _, time_ms = name.partition("/")
                yield StateChange(key, self.prices.dump(market, int(time_ms)))
            else:
                usage = waiting.get(name)
                yield StateChange(key, usage.payload() if usage is not None else None)
        self.changed.clear()
