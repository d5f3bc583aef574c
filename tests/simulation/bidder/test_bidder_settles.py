"""The bidder in a closed loop: 200 cycles of constant demand against the real auction.

Each run has 12 teams in 4 pools (two of them own supply) and about 60 jobs per market and unit of
load, on markets of 200 accelerators. Nothing runs on: every job is pending in every cycle, so that
nothing but the bidder's own rules keeps demand from swinging. Wallets are settled every 5 cycles of
60 s, and a cycle sees the wallet of at least 5 minutes ago. Design §4 says what must not happen:
prices stuck at zero, oscillation, supply that nobody gets although somebody wants it.

A market counts as stuck when it is free although demand is unmet and it leaves supply unsold that
is demanded there, or that could hold a job which is demand in a market with a price. A market that
is free and sold out is not: no rule lets anything move there (decision 0010). How often a market is
free while another one has a price and demand is unmet is printed with every run.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from walras_clearing import Job, clear
from walras_clearing_service.model import (
    BidderParameters,
    LastClearing,
    MarketInput,
    PoolInput,
)
from walras_clearing_service.reference_bidder import (
    PlainBidPlan,
    TeamBid,
    plan_bids,
    team_cap,
)
from walras_clearing_service.reference_cycle import last_clearing, market_of
from walras_clearing_service.reference_model import JobView, PlainCycleInput, TeamInput
from walras_contracts.accounts import Gate, IdleOwnSupply, Margin

CYCLES = 200
SETTLED_AFTER = 50
SETTLEMENT_CYCLES = 5
START_MS = 1_700_000_000_000
ACCELERATOR = 1000
MARKET_MACC = 200 * ACCELERATOR
FAIR_PRICE_MICRO = 2_000_000
"""Price at which all incomes together buy all supply."""
PARAMETERS = BidderParameters(120, 100_000, 62_500, 100_000, 10)
MOVES_MAX = 0.01
OCCUPANCY_MIN = 0.97
WINDOW_CYCLES = 10
"""Quota must keep still in every stretch of so many cycles, not only on average over the run."""

Bidder = Callable[[PlainCycleInput], PlainBidPlan]


@dataclass(frozen=True, slots=True)
class Scenario:
    markets: tuple[str, ...]
    load: float
    seed: int
    sizes: tuple[int, ...] = (1, 1, 2, 2, 4, 8)
    """Job sizes, in accelerators."""

    def name(self) -> str:
        return f"{len(self.markets)}-markets-load-{self.load}-seed-{self.seed}"


@dataclass(slots=True)
class Trace:
    """What was seen in each cycle."""

    moved: list[float] = field(default_factory=list)
    """Share of all supply whose quota changed hands."""
    occupancy: list[float] = field(default_factory=list)
    """Sold supply by what demand allows."""
    prices: list[dict[str, int]] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    """Markets at price 0 with unsold supply and unserved jobs that fit there."""
    free_beside_priced: list[int] = field(default_factory=list)
    """Markets at price 0 while a substitute has a price and demand is unmet, sold out or not."""
    lowest_wallet_micro: int = 0

    def mean_moved(self) -> float:
        """Mean share of the supply that changed hands per cycle, once settled."""
        return _mean(self.moved[SETTLED_AFTER:])

    def worst_window(self) -> float:
        """The same over the worst stretch of :data:`WINDOW_CYCLES` cycles."""
        starts = range(SETTLED_AFTER, len(self.moved) - WINDOW_CYCLES + 1)
        return max(_mean(self.moved[start : start + WINDOW_CYCLES]) for start in starts)

    def figures(self) -> str:
        """One line that says how a run went, once settled."""
        settled = slice(SETTLED_AFTER, None)
        free, markets = sum(self.free_beside_priced[settled]), len(self.prices[-1])
        return (
            f"moved per cycle: mean {self.mean_moved():.3%}, worst {WINDOW_CYCLES} cycles "
            f"{self.worst_window():.3%}, peak {max(self.moved[settled]):.3%}; "
            f"occupancy {_mean(self.occupancy[settled]):.3f}; "
            f"stuck {sum(self.stuck[settled])}; free while a substitute is priced and demand is "
            f"unmet: {free} of {markets * len(self.prices[settled])} market cycles"
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


class World:
    """Constant demand, wallets and markets around a bidder."""

    def __init__(self, scenario: Scenario, bidder: Bidder) -> None:
        self.bidder = bidder
        draw = random.Random(f"bidder/{scenario.name()}")
        total = MARKET_MACC * len(scenario.markets)
        weights = [draw.randint(1, 4) for _ in range(4)]
        income = FAIR_PRICE_MICRO * total // ACCELERATOR
        self.pools = tuple(
            PoolInput(f"pool-{k}", income * weights[k] // sum(weights), 3, 2_000_000)
            for k in range(4)
        )
        own = {"pool-0": 20 * ACCELERATOR, "pool-1": 10 * ACCELERATOR}
        self.markets = tuple(
            MarketInput(
                name,
                MARKET_MACC - sum(own.values()),
                own,
                Gate.ON,
                Margin.PRO_RATA,
                IdleOwnSupply.LEND,
                0,
            )
            for name in scenario.markets
        )
        self.supply_macc = total
        self.teams = self._teams(scenario, draw)
        self.demand_macc = sum(job.size_macc for team in self.teams for job in team.jobs)
        # An empty system: everything was free and nobody had bid.
        self.last = {
            market.market: LastClearing(
                0, 0, {pool.pool: 0 for pool in self.pools}, MARKET_MACC, {}
            )
            for market in self.markets
        }
        self.wallets = {team.team: 0 for team in self.teams}
        self.visible = dict(self.wallets)
        self.charged = dict.fromkeys(self.wallets, 0)
        self.quotas: dict[tuple[str, str], int] = {}
        self.trace = Trace()

    def _teams(self, scenario: Scenario, draw: random.Random) -> tuple[TeamInput, ...]:
        teams = []
        wanted = int(scenario.load * self.supply_macc)
        sizes: list[int] = []
        while sum(sizes) < wanted:
            left = wanted - sum(sizes)
            sizes.append(min(left, draw.choice(scenario.sizes) * ACCELERATOR))
        owners = [draw.randrange(12) for _ in sizes]
        for number in range(12):
            pool = self.pools[number % 4]
            name = f"team-{number:02d}"
            jobs = []
            for place, (size, owner) in enumerate(zip(sizes, owners, strict=True)):
                if owner == number:
                    jobs.append(_job(name, place, size, scenario.markets, draw))
            income = pool.weight_micro_per_hour // 3
            teams.append(TeamInput(name, pool.pool, income, 2_000_000, 0, False, tuple(jobs)))
        return tuple(teams)

    def run(self) -> Trace:
        for cycle in range(1, CYCLES + 1):
            self._cycle(cycle)
            if cycle % SETTLEMENT_CYCLES == 0:
                self._settle()
        return self.trace

    def _cycle(self, cycle: int) -> None:
        cycle_input = PlainCycleInput(
            cycle,
            cycle,
            START_MS + 60_000 * cycle,
            -1,
            PARAMETERS,
            self.pools,
            tuple(replace(t, wallet_micro=self.visible[t.team]) for t in self.teams),
            self.markets,
            self.last,
        )
        plan = self.bidder(cycle_input)
        quotas: dict[tuple[str, str], int] = {}
        prices: dict[str, int] = {}
        for market in self.markets:
            name = market.market
            bids = plan.bids[name]
            result = clear(market_of(market, self.pools, bids))
            self.last = {**self.last, name: last_clearing(market, result, cycle)}
            prices[name] = result.reference_price_micro or 0
            for bid in bids:
                got = result.teams[bid.team].allocated_macc
                quotas[bid.team, name] = got
                price = result.pools[bid.pool].price_micro or 0
                self.charged[bid.team] += price * got // ACCELERATOR // 60
        self._reassign(plan.assigned)
        self._see(quotas, prices)

    def _see(self, quotas: dict[tuple[str, str], int], prices: dict[str, int]) -> None:
        changed = sum(
            abs(quotas.get(key, 0) - self.quotas.get(key, 0)) for key in {*quotas, *self.quotas}
        )
        self.trace.moved.append(changed / 2 / self.supply_macc)
        sold = sum(quotas.values())
        self.trace.occupancy.append(sold / min(self.supply_macc, self.demand_macc))
        self.trace.prices.append(prices)
        unmet = sold < self.demand_macc
        free = [name for name, price in prices.items() if price == 0] if unmet else []
        self.trace.stuck.append(sum(self._could_sell(name, quotas, prices) for name in free))
        self.trace.free_beside_priced.append(len(free) if any(prices.values()) else 0)
        self.quotas = quotas

    def _could_sell(
        self, name: str, quotas: dict[tuple[str, str], int], prices: dict[str, int]
    ) -> bool:
        """Whether a free market leaves unsold what is demanded there, or what a job would fit."""
        unsold = MARKET_MACC - sum(q for (_, market), q in quotas.items() if market == name)
        wanted = sum(j.size_macc for t in self.teams for j in t.jobs if j.assigned == name)
        refused = unsold > 0 and wanted > MARKET_MACC - unsold
        return refused or self.smallest_in_priced(prices) <= unsold

    def smallest_in_priced(self, prices: dict[str, int]) -> int:
        """Return the size of the smallest job that is demand where a price is asked."""
        return min(
            (
                job.size_macc
                for team in self.teams
                for job in team.jobs
                if prices.get(job.assigned or "", 0) > 0
            ),
            default=MARKET_MACC + 1,
        )

    def _settle(self) -> None:
        self.visible = dict(self.wallets)
        for team in self.teams:
            earned = team.income_micro_per_hour * SETTLEMENT_CYCLES // 60
            self.wallets[team.team] += earned - self.charged[team.team]
            self.charged[team.team] = 0
            self.trace.lowest_wallet_micro = min(
                self.trace.lowest_wallet_micro, self.wallets[team.team]
            )

    def _reassign(self, assigned: Mapping[str, str]) -> None:
        if not assigned:
            return
        self.teams = tuple(
            replace(
                team,
                jobs=tuple(
                    replace(job, assigned=assigned[job.key]) if job.key in assigned else job
                    for job in team.jobs
                ),
            )
            for team in self.teams
        )


def _job(
    team: str, place: int, size: int, markets: tuple[str, ...], draw: random.Random
) -> JobView:
    # Most prefer the first market: the other two start empty and free.
    types = list(markets) if draw.random() < 0.6 else draw.sample(markets, len(markets))
    limit = None if draw.random() < 0.7 else int(FAIR_PRICE_MICRO * draw.uniform(0.2, 3.0))
    name = f"job-{place:04d}"
    return JobView(
        key=f"{team}/{name}",
        team=team,
        types=tuple(types),
        size_macc=size,
        limit_micro=limit,
        gang=False,
        minimum_run_ms=0,
        position=place,
        running_in=None,
        draining=False,
        started_ms=None,
        refused=False,
        assigned=types[0],
        unplaceable_since=None,
        offer=Job(name, size, limit),
    )


def queue_pricing_bidder(cycle_input: PlainCycleInput) -> PlainBidPlan:
    """Naive: bids what its queue costs at the last prices."""
    plan = plan_bids(cycle_input)
    caps = {team.team: team_cap(team, cycle_input.parameters) for team in cycle_input.teams}
    bids = {}
    for market, team_bids in plan.bids.items():
        priced = []
        for bid in team_bids:
            price = cycle_input.last[market].price_for(bid.pool) or 0
            cost = min(caps[bid.team], price * bid.demand_macc // ACCELERATOR)
            caps[bid.team] -= cost
            priced.append(replace(bid, bid_micro_per_hour=cost))
        bids[market] = tuple(priced)
    return replace(plan, bids=bids)


def cheapest_type_bidder(cycle_input: PlainCycleInput) -> PlainBidPlan:
    """Naive: every job goes to the cheapest type at the last price; the cap is split by demand."""
    bids: dict[str, list[TeamBid]] = {market.market: [] for market in cycle_input.markets}
    assigned = {}
    for team in cycle_input.teams:
        jobs: dict[str, list[JobView]] = {}
        for job in team.jobs:
            best = min(job.types, key=lambda m: cycle_input.last[m].price_for(team.pool) or 0)
            jobs.setdefault(best, []).append(job)
            if best != job.assigned:
                assigned[job.key] = best
        total = sum(job.size_macc for job in team.jobs)
        cap = team_cap(team, cycle_input.parameters)
        for market, taken in jobs.items():
            macc = sum(job.size_macc for job in taken)
            offers = tuple(job.offer for job in taken)
            bids[market].append(TeamBid(team.team, team.pool, cap * macc // total, offers, macc))
    return PlainBidPlan({m: tuple(b) for m, b in bids.items()}, {}, assigned, {})


def rarely_swinging_bidder(cycle_input: PlainCycleInput) -> PlainBidPlan:
    """Naive once: in one cycle of all, every team bids what the next one would."""
    plan = plan_bids(cycle_input)
    if cycle_input.cycle != CYCLES * 3 // 4:
        return plan
    bids = {}
    for market, team_bids in plan.bids.items():
        amounts = [bid.bid_micro_per_hour for bid in team_bids]
        turned = zip(team_bids, amounts[1:] + amounts[:1], strict=True)
        bids[market] = tuple(replace(bid, bid_micro_per_hour=amount) for bid, amount in turned)
    return replace(plan, bids=bids)


def faults(trace: Trace) -> set[str]:
    """Return what is wrong with a run once it had time to settle."""
    found = set()
    if trace.mean_moved() >= MOVES_MAX or trace.worst_window() >= MOVES_MAX:
        found.add("oscillation")
    if _mean(trace.occupancy[SETTLED_AFTER:]) < OCCUPANCY_MIN:
        found.add("idle_supply")
    if any(trace.stuck[SETTLED_AFTER:]):
        found.add("stuck_at_zero")
    return found


ONE = ("a100",)
THREE = ("a100", "h100", "l40s")
SCENARIOS = [
    Scenario(markets, load, seed)
    for markets in (ONE, THREE)
    for load in (0.9, 1.05, 1.5)
    for seed in (1, 2, 3)
]


def run(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> Trace:
    trace = World(scenario, plan_bids).run()
    with capsys.disabled():
        print(f"\nbidder, {scenario.name()}, jobs of {scenario.sizes}: {trace.figures()}")
    return trace


@pytest.mark.parametrize("scenario", SCENARIOS, ids=Scenario.name)
def test_prices_and_quotas_settle_and_supply_is_sold(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = run(scenario, capsys)
    assert faults(trace) == set(), trace.figures()
    assert trace.lowest_wallet_micro >= 0


@pytest.mark.parametrize("load", [0.9, 1.05, 1.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_large_jobs_reach_free_markets_too(
    load: float, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = run(Scenario(THREE, load, seed, sizes=(8, 16)), capsys)
    assert faults(trace) == set(), trace.figures()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bidder_that_prices_its_queue_sticks_at_zero(seed: int) -> None:
    trace = World(Scenario(ONE, 1.05, seed), queue_pricing_bidder).run()
    assert {"stuck_at_zero", "idle_supply"} <= faults(trace)


@pytest.mark.parametrize("load", [1.05, 1.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bidder_that_takes_the_cheapest_type_oscillates(load: float, seed: int) -> None:
    trace = World(Scenario(THREE, load, seed), cheapest_type_bidder).run()
    assert {"oscillation", "idle_supply"} <= faults(trace)


@pytest.mark.parametrize("markets", [ONE, THREE], ids=["one-market", "three-markets"])
def test_a_bidder_that_swings_once_is_noticed_though_its_mean_is_low(
    markets: tuple[str, ...],
) -> None:
    trace = World(Scenario(markets, 1.5, 1), rarely_swinging_bidder).run()
    assert trace.mean_moved() < MOVES_MAX
    assert faults(trace) == {"oscillation"}, trace.figures()
