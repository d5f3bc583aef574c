"""The stage, and the plain specification of it, fed with the same records and compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from walras_clearing import NO_LIMIT, ClearingResult, Job
from walras_clearing_service.bidder import BidPlan, plan_bids
from walras_clearing_service.core import ClearingStage, Options
from walras_clearing_service.model import CycleInput
from walras_clearing_service.offers import queue_order
from walras_clearing_service.reference_bidder import PlainBidPlan, TeamBid
from walras_clearing_service.reference_bidder import plan_bids as plan_plainly
from walras_clearing_service.reference_cycle import last_clearing
from walras_clearing_service.reference_model import PlainCycleInput, TeamInput
from walras_clearing_service.reference_queue import PlainQueue
from walras_clearing_service.reference_releasing import (
    PlainCleared,
    PlainReleased,
    clear_and_release,
)
from walras_clearing_service.state import ClearingState
from walras_contracts.demand import JobQueued
from walras_contracts.market import CycleRecorded, DemandReleased
from walras_contracts.money import BalancePublished, BudgetPublished
from walras_contracts.placing import PlacementMeasured
from walras_contracts.registry import decode_inner
from walras_contracts.work import JobStatusChanged
from walras_runtime.records import Barrier, Output, Record, Step

OPTIONS = Options(cycle_every=1, settlement_lag_steps=2, live=False)


@dataclass
class Twin:
    """The stage, and the plain specification fed with the same records."""

    kit: Any
    queue: PlainQueue = field(default_factory=PlainQueue)
    wallets: dict[str, int] = field(default_factory=dict)
    exhausted: dict[str, bool] = field(default_factory=dict)
    cycle: int = 0
    released: dict[str, tuple[DemandReleased, ...]] = field(default_factory=dict)
    """By market, what the last step released."""
    cleared: dict[str, PlainCleared] = field(default_factory=dict)
    """By market, what the specification said of the last step."""

    def __post_init__(self) -> None:
        self.stage = ClearingStage(OPTIONS, self.kit.solver)

    def fold(self, *events: Any) -> None:
        for event in events:
            if isinstance(event, Output):
                key, kind, body, topic = event.key, event.type, None, event.topic
            else:
                key, kind, body, topic = event.record_key(), event.TYPE, event, event.TOPIC
            if isinstance(body, PlacementMeasured):
                self.stage.state.take_stuck(body)
                continue
            self.stage.fold(Record(topic, 0, 0, key, kind, None, body))
            if kind == JobQueued.TYPE:
                self.queue.put_job(key, body)
            elif kind == JobStatusChanged.TYPE:
                self.queue.put_status(key, body)
            elif isinstance(body, BalancePublished):
                self.wallets[key] = body.wallet_micro
            elif isinstance(body, BudgetPublished):
                self.exhausted[key] = body.exhausted

    def step(self) -> PlainBidPlan:
        """Run a cycle on both and compare all that they decided; return what they decided."""
        state = self.stage.state
        self.queue.forget_left()
        state.forget_left()
        now_ms = self.kit.time_of(self.cycle)
        frozen = state.freeze(self.cycle, self.cycle, now_ms, ())
        plain = self.plain_input(frozen)
        assert frozen.digest == plain.digest()
        expected = plan_plainly(plain)
        assert plain_of(plan_bids(frozen, state.jobs, state.teams), state, frozen) == expected
        outputs = self.stage.step(Step(Barrier(self.cycle, now_ms), {})).outputs
        self.released = released_in(outputs)
        self.queue.remember(expected)
        for market in plain.markets:
            bids = expected.bids.get(market.market)
            if bids is not None:
                cleared = clear_and_release(plain, market, bids)
                outcome = cleared.result
                assert state.last[market.market] == last_clearing(market, outcome, self.cycle)
                self.compare_quotas(market.market, outcome)
                told = [in_plain(each) for each in self.released[market.market]]
                assert tuple(told) == cleared.released
                self.cleared[market.market] = cleared
        self.cycle += 1
        return expected

    def compare_quotas(self, market: str, outcome: ClearingResult) -> None:
        for name, team in outcome.teams.items():
            told = {entry.market: entry for entry in self.stage.state.quotas[name].markets}
            mine = told[market]
            assert (mine.allocated_macc, mine.opportunistic_macc) == (
                team.allocated_macc,
                team.opportunistic_macc,
            )

    def plain_input(self, frozen: CycleInput) -> PlainCycleInput:
        means = self.stage.state.accounts.in_effect(frozen.market_time_ms).means
        teams = []
        for name, jobs in self.queue.teams().items():
            mine = means.get(name)
            teams.append(
                TeamInput(
                    team=name,
                    pool=mine.pool if mine else self.queue.pool_of(jobs),
                    income_micro_per_hour=mine.income_micro_per_hour if mine else 0,
                    leverage_ppm=mine.leverage_ppm if mine else 0,
                    wallet_micro=self.wallets.get(name, 0),
                    exhausted=self.exhausted.get(name, False),
                    jobs=jobs,
                )
            )
        return PlainCycleInput(
            cycle=frozen.cycle,
            barrier=frozen.barrier,
            market_time_ms=frozen.market_time_ms,
            settlement_barrier=frozen.settlement_barrier,
            parameters=frozen.parameters,
            pools=frozen.pools,
            teams=tuple(teams),
            markets=frozen.markets,
            last=frozen.last,
            stuck=frozen.stuck,
        )


def plain_of(plan: BidPlan, state: ClearingState, frozen: CycleInput) -> PlainBidPlan:
    """The columns of a plan, job by job, in the form of the specification."""
    jobs, teams = state.jobs, state.teams
    bids = {}
    for market, offer in plan.offers.items():
        mine: dict[int, list[Job]] = {}
        for place in queue_order(jobs, teams, offer.rows).tolist():
            limit = int(offer.limit_micro[place])
            name = jobs.keys[offer.rows[place]].partition("/")[2]
            job = Job(name, int(offer.size_macc[place]), None if limit == NO_LIMIT else limit)
            mine.setdefault(int(offer.team[place]), []).append(job)
        assert not plan.bids[market][~offer.takes_part].any()
        bids[market] = tuple(
            TeamBid(
                teams.names.names[team],
                frozen.pools[plan.pool_index[team]].pool,
                int(plan.bids[market][team]),
                tuple(mine.get(team, ())),
                sum(job.size_macc for job in mine.get(team, ())),
            )
            for team in teams.in_order().tolist()
            if offer.takes_part[team]
        )
    return PlainBidPlan(bids, plan.counts, plan.assigned, plan.unplaceable)


def released_in(outputs: Iterable[Output]) -> dict[str, tuple[DemandReleased, ...]]:
    """What the cycle records among the outputs of a step say of released demand, by market."""
    found = {}
    for output in outputs:
        if output.type == CycleRecorded.TYPE and output.payload is not None:
            head = decode_inner(output.type, output.payload)
            assert isinstance(head, CycleRecorded)
            found[head.market] = head.released
    return found


def in_plain(each: DemandReleased) -> PlainReleased:
    """In the form of the specification."""
    sizes = (each.needed_macc, each.quota_macc, each.kept_macc)
    return PlainReleased(each.pool, f"{each.team}/{each.job}", *sizes)
