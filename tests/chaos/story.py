"""What the outside writes in a chaos run, step by step: a pure function of the plan.

Leases come and go and are metered once a step, prices move, pools have income. The plan's
disturbances of the log are in it: repeated, reordered, late and stale use, late prices, changed
accounts.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.finance import requests_of
from tests.chaos.leases import LeaseBook, teams_of
from tests.chaos.plan import LOOK_BACK_STEPS, PARTITIONS, Disturbance, Kind, Plan
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    MarketDocument,
    PoolDocument,
    PriceGapPolicy,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.invoices import InvoiceAction
from walras_contracts.market import PoolPrice, PriceGapPublished, PricePublished
from walras_contracts.work import UsageMetered
from walras_runtime.records import Barrier

START_MS: Final = 1_800_000_000_000
STEP_MS: Final = 60_000
LOOK_BACK_MS: Final = LOOK_BACK_STEPS * STEP_MS
SETTLEMENT_MS: Final = 300_000
MARKETS: Final = ("a100-80gb", "h100-80gb", "tpu-v5e")
POOLS: Final = ("ads", "maps", "search", "video")
ZONES: Final = ("UTC", "Europe/Budapest", "Asia/Kolkata", "America/New_York")
PRICE_MICRO: Final = 2_500_000
LOWEST_PRICE_MICRO: Final = 200_000
WEIGHT_MICRO: Final = 4_000_000_000
UNKNOWN_ONE_IN: Final = 60
"""One pool price in so many is unknown: its use waits."""
BETWEEN_ONE_IN: Final = 3
"""One step in so many has a price from within its interval, too."""

ISSUED_STEPS: Final = 66
"""So many steps later the invoice of an hour is issued, its grace being over."""


def time_ms(step: int) -> int:
    """Return the market time of a barrier."""
    return START_MS + step * STEP_MS


@dataclass(slots=True)
class StepInput:
    """What is written in front of a barrier, in order."""

    barrier: Barrier
    events: list[Event] = field(default_factory=list)


class Story:
    """The input of a plan; iterate once.

    ``happened`` counts by kind the disturbances that have changed something in it so far.
    """

    def __init__(self, plan: Plan) -> None:
        self.happened: Counter[Kind] = Counter()
        self._plan = plan
        self._chooser = random.Random(f"story/{plan.seed}")
        self._leases = LeaseBook(plan.leases, POOLS, MARKETS, random.Random(f"leases/{plan.seed}"))
        self._at: dict[int, list[Disturbance]] = defaultdict(list)
        for each in plan.of_the_log():
            self._at[each.step].append(each)
        self._later: dict[int, list[Event]] = defaultdict(list)
        """What was held back, by the step in which it comes."""
        self._held: dict[int, int] = {}
        """Places of leases whose use is held back, with the step in which it comes."""
        self._reordered_until = -1
        self._silent: dict[str, PriceGapPublished] = {}
        """By market the time without prices that it is in."""
        self._reference = dict.fromkeys(MARKETS, PRICE_MICRO)
        self._documents = {pool: self._first_document(pool) for pool in POOLS}
        self._versions = dict.fromkeys(POOLS, 1)

    def __iter__(self) -> Iterator[StepInput]:
        written = 0
        for number in range(self._plan.all_steps):
            step = StepInput(Barrier(number, time_ms(number)))
            if number == 0:
                step.events += self._first_accounts()
            begun = self._at[number]
            step.events += self._changed_accounts(number, begun)
            step.events += self._asked(number, begun)
            step.events += self._prices(number, begun)
            use: list[Event] = []
            if 0 < number <= self._plan.steps:
                most = self._plan.events - written
                metered = self._leases.step(time_ms(number - 1), time_ms(number), most)
                written += len(metered.usage)
                step.events += metered.drains
                use = self._told(number, begun, metered.usage)
            use += self._later.pop(number, [])
            if number <= self._reordered_until:
                self._chooser.shuffle(use)
            step.events += use
            yield step

    def _come(self, step: int) -> int:
        """Return the step in which something late comes: not behind the end of the run."""
        return min(step, self._plan.all_steps - 2)

    def _told(
        self, number: int, begun: list[Disturbance], usage: list[tuple[int, UsageMetered]]
    ) -> list[Event]:
        """Return the use that is written in time, as the disturbances have it."""
        for each in begun:
            if each.kind is Kind.REORDERED:
                until = number + each.steps - 1
                self._reordered_until = max(self._reordered_until, until)
                self.happened[each.kind] += bool(usage)
            if each.kind is Kind.LATE_USAGE:
                place = each.draw % self._plan.leases
                comes = self._come(number + each.steps)
                self._held[place] = max(self._held.get(place, comes), comes)
                self.happened[each.kind] += any(at == place for at, _ in usage)
        told: list[Event] = []
        for place, record in usage:
            comes = self._held.get(place, number)
            if comes - number < 2:
                # Shortly before, so that what comes late is a few records of the lease.
                self._held.pop(place, None)
                comes = number
            if comes == number and number < self._reordered_until:
                comes = self._chooser.randint(number, self._reordered_until)
            if comes == number:
                told.append(record)
            else:
                self._later[comes].append(record)
        for each in begun:
            if each.kind is Kind.DUPLICATED:
                again = [r for index, r in enumerate(told) if (index + each.draw) % 3 == 0]
                self.happened[each.kind] += bool(again)
                told += again
                self._later[self._come(number + each.steps)] += again[::2]
            if each.kind is Kind.STALE_USAGE:
                stale = [record for _, record in usage[each.draw % 3 :: 3] or usage[:1]]
                self.happened[each.kind] += bool(stale)
                comes = number + each.steps
                self._later[comes] += stale
                self._later[comes] += [_overlapping(record, comes) for record in stale]
        return told

    def _prices(self, number: int, begun: list[Disturbance]) -> list[Event]:
        prices: list[Event] = []
        late: dict[str, Disturbance] = {}
        for each in begun:
            if each.kind not in {Kind.LATE_PRICE, Kind.PRICE_GAP}:
                continue
            first = each.draw % len(MARKETS)
            free = [m for m in MARKETS[first:] + MARKETS[:first] if not self._is_taken(m, late)]
            if not free:
                continue
            self.happened[each.kind] += 1
            if each.kind is Kind.LATE_PRICE:
                late[free[0]] = each
            else:
                self._silent[free[0]] = self._gap(free[0], number, each)
        for market in MARKETS:
            gap = self._silent.get(market)
            if gap is not None:
                if gap.end_ms > time_ms(number):
                    continue
                del self._silent[market]
                # The cycle that publishes the gap has a price for its end.
                prices += [gap, self._price(market, number, gap.end_ms)]
                continue
            if number > 0 and self._chooser.randrange(BETWEEN_ONE_IN) == 0:
                at_ms = time_ms(number) - self._chooser.randrange(1, STEP_MS)
                prices.append(self._price(market, number, at_ms))
            price = self._price(market, number, time_ms(number))
            if market not in late:
                prices.append(price)
                continue
            comes = self._come(number + late[market].steps)
            if late[market].draw % 2:
                prices.append(price)
                self._later[comes].append(self._price(market, number, time_ms(number)))
            else:
                self._later[comes].append(price)
        return prices

    def _is_taken(self, market: str, late: dict[str, Disturbance]) -> bool:
        return market in late or market in self._silent

    def _gap(self, market: str, number: int, disturbance: Disturbance) -> PriceGapPublished:
        comes = self._come(number + disturbance.steps)
        policies = tuple(PriceGapPolicy)
        return PriceGapPublished(
            market=market,
            cycle=comes,
            start_ms=time_ms(number),
            end_ms=time_ms(comes),
            policy=policies[disturbance.draw // len(MARKETS) % len(policies)],
        )

    def _asked(self, number: int, begun: list[Disturbance]) -> list[Event]:
        """Return what finance asks for now, and note what it asks for later.

        A void comes twice: of a draft, which is refused, and of what is issued by then.
        """
        asked: list[Event] = []
        for each in begun:
            if each.kind is Kind.FINANCE:
                pool = POOLS[each.draw % len(POOLS)]
                zone = self._documents[pool].billing.zone
                requests = requests_of(pool, zone, time_ms(number), each.draw)
                asked += requests[InvoiceAction.HOLD] + requests[InvoiceAction.VOID]
                self._later[self._come(number + each.steps)] += requests[InvoiceAction.RELEASE]
                self._later[self._come(number + ISSUED_STEPS)] += requests[InvoiceAction.VOID]
                self.happened[each.kind] += 1
        return asked

    def _price(self, market: str, cycle: int, at_ms: int) -> PricePublished:
        moved = self._reference[market] * self._chooser.randint(900_000, 1_110_000) // 1_000_000
        reference = self._reference[market] = max(LOWEST_PRICE_MICRO, moved)
        pools = []
        for pool in POOLS:
            document = self._documents[pool]
            known = self._chooser.randrange(UNKNOWN_ONE_IN) > 0
            own = reference * self._chooser.randint(300_000, 1_000_000) // 1_000_000
            pools.append(
                PoolPrice(
                    pool=pool,
                    price_micro=own if known else None,
                    weight_micro_per_hour=document.weight_micro_per_hour,
                    local_income_per_hour=sum(t.income_local_per_hour for t in document.teams),
                )
            )
        return PricePublished(
            market=market,
            cycle=cycle,
            market_time_ms=at_ms,
            reference_price_micro=reference,
            pools=tuple(pools),
        )

    def _first_document(self, pool: str) -> PoolDocument:
        teams = tuple(
            TeamAccount(
                team=team,
                income_local_per_hour=100 + 50 * index,
                budgets=_budgets() if index == 0 else (),
            )
            for index, team in enumerate(teams_of(pool))
        )
        return PoolDocument(
            pool=pool, weight_micro_per_hour=WEIGHT_MICRO, billing=_terms(pool), teams=teams
        )

    def _first_accounts(self) -> list[Event]:
        documents: list[PoolDocument | MarketDocument] = [self._documents[pool] for pool in POOLS]
        documents += [MarketDocument(market=market) for market in MARKETS]
        return [
            AccountsChanged(version=1, effective_ms=START_MS, document=document)
            for document in documents
        ]

    def _changed_accounts(self, number: int, begun: list[Disturbance]) -> list[Event]:
        changed: list[Event] = []
        for each in begun:
            if each.kind is not Kind.ACCOUNT:
                continue
            pool = POOLS[each.draw % len(POOLS)]
            self.happened[each.kind] += 1
            self._versions[pool] += 1
            self._documents[pool] = self._next_document(pool)
            changed.append(
                AccountsChanged(
                    version=self._versions[pool],
                    effective_ms=(time_ms(number) // SETTLEMENT_MS + 1) * SETTLEMENT_MS,
                    document=self._documents[pool],
                )
            )
        return changed

    def _next_document(self, pool: str) -> PoolDocument:
        """Return the pool with another weight, other incomes, and a guest who comes or goes."""
        held = self._documents[pool]
        teams = [
            team.model_copy(update={"income_local_per_hour": self._chooser.randrange(400)})
            for team in held.teams
            if team.team in teams_of(pool)
        ]
        if len(teams) == len(held.teams):
            teams.append(TeamAccount(team=f"{pool}-guest", income_local_per_hour=70))
        weight = WEIGHT_MICRO * self._chooser.randint(0, 2_000) // 1_000
        return held.model_copy(update={"weight_micro_per_hour": weight, "teams": tuple(teams)})


def _overlapping(record: UsageMetered, comes: int) -> UsageMetered:
    """Return use of another attempt that overlaps a record.

    It begins before the look-back of a step and ends within it.
    """
    middle_ms = (record.start_ms + record.end_ms) // 2
    end_ms = time_ms(comes - LOOK_BACK_STEPS) + STEP_MS // 2
    changes = {"attempt": record.attempt + 1, "seq": 0, "start_ms": middle_ms, "end_ms": end_ms}
    return record.model_copy(update=changes)


def is_stale(record: UsageMetered, step: int) -> bool:
    """Whether use that comes in a step begins before what billing remembers for certain."""
    return record.start_ms < time_ms(step) - LOOK_BACK_MS


def _terms(pool: str) -> BillingTerms:
    """Hourly invoices, so that a run has drafts, issued ones and corrections of these."""
    zone = ZONES[POOLS.index(pool)]
    return BillingTerms(zone=zone, period=BillingPeriod.HOUR, grace_ms=SETTLEMENT_MS)


def _budgets() -> tuple[TeamBudget, ...]:
    return (TeamBudget(window=BillingPeriod.HOUR, limit_micro=400_000_000),)


def partitions_with_use() -> set[int]:
    """Return the partitions that have teams with use."""
    return {partition_of(team, PARTITIONS) for pool in POOLS for team in teams_of(pool)}
