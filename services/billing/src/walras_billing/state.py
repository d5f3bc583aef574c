"""What billing remembers: wallets, prices, usage within the look-back, what was settled."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from walras_billing.accounts import AccountBook, Incomes, Member
from walras_billing.drains import FailedDrains
from walras_billing.known_names import KnownNames
from walras_billing.prices import Gap, PriceHistory, Version
from walras_billing.rating import ChargeLine, Piece, rated
from walras_billing.sources import Source, UsageBook
from walras_billing.spending import Calendar
from walras_billing.time_buckets import TimeBuckets
from walras_billing.time_held import TimeHeld
from walras_billing.unrated import UnratedUse
from walras_billing.usage_line import Span, UsageLine
from walras_billing.wallets import Wallet
from walras_contracts.money import StopReason
from walras_runtime.records import StateChange

WALLET: Final = "wallet/"
PRICE: Final = "price/"
LINE: Final = "line/"
MISSING: Final = "missing/"
FAILED: Final = "failed/"
HELD: Final = "held/"
CLOCK_KEY: Final = "clock"
BEFORE_ALL_MS: Final = -1
AFTER_ALL: Final = 2**62
NO_POOL_ZONE: Final = "UTC"
"""Zone of the windows of a team that is in no pool."""
OF_BUDGETS: Final = frozenset({StopReason.HOUR, StopReason.DAY, StopReason.MONTH})


@dataclass(slots=True)
class BillingState:
    """State of one partition of teams."""

    accounts: AccountBook = field(default_factory=AccountBook)
    prices: PriceHistory = field(default_factory=PriceHistory)
    usage: UsageBook = field(default_factory=UsageBook)
    known: KnownNames = field(default_factory=KnownNames)
    failed: FailedDrains = field(default_factory=FailedDrains)
    wallets: dict[str, Wallet] = field(default_factory=dict)
    calendar: Calendar = field(default_factory=Calendar)
    unrated: UnratedUse = field(default_factory=UnratedUse)
    time_held: TimeHeld = field(default_factory=TimeHeld)
    members: Mapping[str, Member] = field(default_factory=dict)
    """The teams by the documents that count at the time of the step."""
    spent: dict[str, None] = field(default_factory=dict)
    """Teams whose use, rated or not, changed in this step."""
    look_at_all: bool = True
    """Whether more than the use of single teams changed what budgets stand at."""
    budgeted: dict[str, None] = field(default_factory=dict)
    """Teams with budgets, by the documents of ``looked_by``."""
    looked_by: Mapping[str, Member] | None = None
    stopped: dict[str, None] = field(default_factory=dict)
    """Teams that a budget stopped."""
    settled_ms: int | None = None
    """The last settled boundary; None before the first step."""
    clock_ms: int = BEFORE_ALL_MS
    """Market time of the last step."""
    rated_until_ms: int = BEFORE_ALL_MS
    """Latest end of the lines rated so far."""
    forgotten_ms: int = BEFORE_ALL_MS
    """Lines that ended at or before it may be forgotten; so nothing that begins before it is
    taken any more, whatever the look-back is set to later."""
    due: TimeBuckets[UsageLine] = field(default_factory=TimeBuckets)
    """Lines by when they are rated."""
    old: TimeBuckets[str] = field(default_factory=TimeBuckets)
    """Sources by the ends of their lines."""
    overdue: dict[str, None] = field(default_factory=dict)
    """Sources with lines beyond the look-back that still wait for a price."""
    changed: dict[str, bytes | None] = field(default_factory=dict)
    """Records of the state topic to be written in this step."""
    touched: dict[str, Wallet] = field(default_factory=dict)
    """Wallets that are among them, by team; they are dumped at the end of the step."""
    _opened: dict[str, Incomes] = field(default_factory=dict)
    """By pool the incomes whose teams have accounts there."""
    _housed: Mapping[str, Member] | None = None
    """The members whose pools their wallets name."""
    _in_order: int = 0
    """So many wallets were in id order when that was last asked for."""
    _loaded: list[UsageLine] = field(default_factory=list)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        kind, _, name = key.partition("/")
        if key == CLOCK_KEY:
            self.clock_ms, self.settled_ms, self.forgotten_ms, *settled = json.loads(value)
            self.time_held.settled_ms, self.time_held.settled_in_ms = settled
        elif kind == "wallet":
            self.wallets[name] = wallet = Wallet.parse(name, value)
            if wallet.reason in OF_BUDGETS:
                self.stopped[name] = None
        elif kind == "price":
            series, time_ms, barrier = name.split("/")
            self.prices.load(series, int(time_ms), int(barrier), value)
        elif kind == "failed":
            self.failed.load(name, value)
        elif kind == "held":
            self.time_held.load(name, value)
        elif kind == "missing":
            held = self.usage.sources.setdefault(name, Source())
            held.missing = [(first, end) for first, end in json.loads(value)]
        else:
            line = UsageLine.parse(value, self.usage.last_of(name.rpartition("/")[0]))
            self.usage.load(line)
            self._loaded.append(line)

    def begin(self, now_ms: int) -> None:
        """Begin the step of a market time."""
        self.resume()
        self.members = self.accounts.members(now_ms)
        if self.calendar.move(now_ms):
            self.look_at_all = True

    def resume(self) -> None:
        """Arrange what was loaded by time, once all of it is there."""
        for line in self._loaded:
            self.old.put(line.end_ms, line.terms.source)
            if line.until_ms > self.clock_ms:
                self.due.put(line.until_ms, line)
                self.unrated.accept(line)
                continue
            self.rated_until_ms = max(self.rated_until_ms, line.end_ms)
            if not self.time_held.is_published(line):
                self.time_held.count(line)
            if line.pending:
                *_, last = rated(line, self.prices, AFTER_ALL)
                self.unrated.follow(line, (), last.pieces)
        self._loaded.clear()

    @property
    def boundary_ms(self) -> int:
        """The last settled boundary; 0 before there is one."""
        return max(0, self.settled_ms or 0)

    def wallet(self, team: str, pool: str) -> Wallet:
        """Return a team's wallet with an account in a pool, an empty one at first."""
        wallet = self.wallets.get(team)
        if wallet is None:
            wallet = self.wallets[team] = Wallet(team, pool)
            self.touch(wallet)
        if pool not in wallet.accounts:
            wallet.account(pool)
            self.touch(wallet)
        return wallet

    def open_wallets(self, incomes: Mapping[str, Incomes], members: Mapping[str, Member]) -> None:
        """See to it that all who earn or are in a pool have an account there, and their home.

        Wallets and their accounts stay for ever, so nothing is to be done for what was looked at
        before: by identity, since incomes and members are other objects when they change.
        """
        for pool, of_pool in incomes.items():
            if self._opened.get(pool) is not of_pool:
                self._opened[pool] = of_pool
                for team in of_pool:
                    self.wallet(team, pool)
        if members is not self._housed:
            self._housed = members
            for team, member in members.items():
                wallet = self.wallet(team, member.pool)
                if wallet.pool != member.pool:
                    wallet.pool = member.pool
                    self.touch(wallet)

    def by_team(self) -> Mapping[str, Wallet]:
        """Return the wallets in id order of their teams."""
        wallets = self.wallets
        # They come team by team and stay for ever: mostly there is nothing to be put in order.
        if len(wallets) != self._in_order:
            self._in_order = len(wallets)
            self.wallets = {team: wallets[team] for team in sorted(wallets)}
        return self.wallets

    def touch(self, wallet: Wallet) -> None:
        """Write a wallet that has changed, as it is at the end of the step."""
        self.touched[wallet.team] = wallet

    def write(self, wallet: Wallet) -> None:
        """Write a wallet as it is now; :meth:`touch` it again if it changes later in the step."""
        team = wallet.team
        self.touched.pop(team, None)
        self.changed[WALLET + team] = wallet.dump()

    def stop(self, wallet: Wallet, reason: StopReason) -> None:
        """Note why a team may not spend."""
        wallet.reason = reason
        self.touch(wallet)
        if reason in OF_BUDGETS:
            self.stopped[wallet.team] = None
        else:
            self.stopped.pop(wallet.team, None)

    def roll(self, wallet: Wallet) -> None:
        """Turn a team's spending to the windows that are running in the zone of its pool."""
        member = self.members.get(wallet.team)
        zone = member.zone if member is not None else NO_POOL_ZONE
        if wallet.spending.roll(self.calendar.windows(zone)):
            self.touch(wallet)

    def accept(self, line: UsageLine) -> None:
        """Take a line in as use that will be charged."""
        terms = line.terms
        self.unrated.accept(line)
        self.spent[terms.team] = None
        self.keep(line)
        self.due.put(line.until_ms, line)
        self.old.put(line.end_ms, terms.source)

    def book(
        self,
        line: UsageLine,
        charges: Sequence[ChargeLine],
        before: Sequence[Piece],
        after: Sequence[Piece],
    ) -> None:
        """Book the charges of a line, and the parts that wait for their price, as they are now."""
        terms = line.terms
        wallet = self.wallet(terms.team, terms.pool)
        self.unrated.follow(line, before, after)
        self.spent[terms.team] = None
        amounts = [charge.amount_numerator for charge in charges]
        if not any(amounts):
            return
        wallet.accounts[terms.pool].spent_numerator += sum(amounts)
        self.roll(wallet)
        for charge in charges:
            wallet.spending.add(charge.start_ms, charge.end_ms, charge.amount_numerator)
        self.touch(wallet)

    def book_whole(self, sales: Iterable[tuple[str, str, int, int, int]]) -> None:
        """Book charges of lines that wait for nothing: team, pool, start, end, their sum."""
        for team, pool, start_ms, end_ms, numerator in sales:
            wallet = self.wallet(team, pool)
            self.spent[team] = None
            if numerator:
                wallet.accounts[pool].spent_numerator += numerator
                self.roll(wallet)
                wallet.spending.add(start_ms, end_ms, numerator)
                self.touch(wallet)

    def credit(self, team: str, pool: str, numerator: int) -> None:
        """Book goodwill: what a charge line gives back, as a positive numerator."""
        wallet = self.wallet(team, pool)
        wallet.accounts[pool].credited_numerator += numerator
        self.touch(wallet)

    def put_price(self, series: str, effective_ms: int, version: Version) -> None:
        """Take a price record."""
        self.prices.put(series, effective_ms, version)
        key = f"{PRICE}{series}/{effective_ms}/{version.barrier}"
        self.changed[key] = self.prices.dump(series, effective_ms, version.barrier)

    def put_price_gap(self, series: str, span: Span, policy: Gap, version: Version) -> None:
        """Take a time without prices."""
        for time_ms in self.prices.put_gap(series, span, policy, version):
            key = f"{PRICE}{series}/{time_ms}/{version.barrier}"
            self.changed[key] = self.prices.dump(series, time_ms, version.barrier)

    def prune_prices(self, before_ms: int) -> None:
        """Forget the prices that were superseded at or before an instant."""
        for series, time_ms, barrier in self.prices.prune(before_ms):
            self.changed[f"{PRICE}{series}/{time_ms}/{barrier}"] = None

    def keep(self, line: UsageLine) -> None:
        """Write a line that is new or has changed."""
        self.changed[f"{LINE}{line.terms.source}/{line.seq}"] = line.dump()

    def drop(self, line: UsageLine) -> None:
        """Remove a forgotten line."""
        self.time_held.forget(line)
        self.changed[LINE + line.key] = None

    def changes(self) -> list[StateChange]:
        """Return what changed in this step, by key, and forget that it did."""
        for name in self.usage.changed:
            held = self.usage.sources.get(name)
            missing = held.missing if held is not None else []
            self.changed[MISSING + name] = json.dumps(missing).encode() if missing else None
        self.usage.changed.clear()
        for name in self.failed.changed:
            self.changed[FAILED + name] = self.failed.dump(name)
        self.failed.changed.clear()
        for name, value in self.time_held.changes():
            self.changed[HELD + name] = value
        clock = [self.clock_ms, self.settled_ms, self.forgotten_ms]
        clock += [self.time_held.settled_ms, self.time_held.settled_in_ms]
        self.changed[CLOCK_KEY] = json.dumps(clock).encode()
        changed = self.changed
        for team, wallet in self.touched.items():
            changed[WALLET + team] = wallet.dump()
        self.touched.clear()
        found = [StateChange(key, changed[key]) for key in sorted(changed)]
        changed.clear()
        return found
