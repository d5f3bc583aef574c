"""Specification of `releasing`, team by team on plain values (decision 20)."""

from dataclasses import dataclass, replace

from walras_clearing import ClearingResult, clear
from walras_clearing_service.model import MarketInput, StuckHead
from walras_clearing_service.reference_bidder import TeamBid
from walras_clearing_service.reference_cycle import market_of
from walras_clearing_service.reference_model import JobView, PlainCycleInput
from walras_contracts.placing import STUCK_AFTER_CYCLES, STUCK_TEAMS_OF_A_POOL

Bids = dict[str, TeamBid]
"""By team."""


@dataclass(frozen=True, slots=True)
class PlainReleased:
    """A team whose demand was cut; sizes in macc."""

    pool: str
    job: str
    needed_macc: int
    quota_macc: int
    kept_macc: int


@dataclass(frozen=True, slots=True)
class PlainCleared:
    """A market as it was cleared last, and what was released for it."""

    bids: tuple[TeamBid, ...]
    result: ClearingResult
    released: tuple[PlainReleased, ...]


def clear_and_release(
    cycle_input: PlainCycleInput, market: MarketInput, bids: tuple[TeamBid, ...]
) -> PlainCleared:
    """Clear a market; again after each round of cuts, as long as there is something to cut."""
    views = {job.key: job for team in cycle_input.teams for job in team.jobs}
    demand: Bids = {bid.team: bid for bid in bids}
    result = clear(market_of(market, cycle_input.pools, bids))
    heads = _in_order(cycle_input.stuck.get(market.market, ()), views, demand)
    pools = sorted({demand[head.team].pool for head in heads})
    waiting = {p: [head for head in heads if demand[head.team].pool == p] for p in pools}
    others = {p: STUCK_TEAMS_OF_A_POOL - sum(_has_turn(h) for h in waiting[p]) for p in pools}
    released: list[PlainReleased] = []
    while True:
        cuts: Bids = {}
        for pool in pools:
            while waiting[pool]:
                head = waiting[pool].pop(0)
                if not _has_turn(head) and others[pool] == 0:
                    continue
                kept = _kept(head, demand[head.team], views, result)
                if kept is None:
                    continue
                others[pool] -= not _has_turn(head)
                bid = demand[head.team]
                cuts[head.team] = _cut(head, bid, kept, views)
                released.append(
                    PlainReleased(
                        pool,
                        head.job,
                        views[head.job].size_macc,
                        result.teams[head.team].allocated_macc,
                        sum(job.size_macc for job in bid.jobs if job.job in kept),
                    )
                )
                break
        if not cuts:
            return PlainCleared(tuple(demand.values()), result, tuple(released))
        demand.update(cuts)
        result = clear(market_of(market, cycle_input.pools, tuple(demand.values())))


def _in_order(
    heads: tuple[StuckHead, ...], views: dict[str, JobView], demand: Bids
) -> list[StuckHead]:
    """Return the heads that count, youngest first; of each pool the three oldest turns at most."""
    found: dict[str, StuckHead] = {}
    for head in heads:
        view, bid = views.get(head.job), demand.get(head.team)
        if view is None or bid is None or head.waited_cycles < STUCK_AFTER_CYCLES:
            continue
        offered = [job for job in bid.jobs if job.job == view.offer.job]
        is_asking = any(job.limit_micro is None or job.limit_micro > 0 for job in offered)
        if view.running_in is None and is_asking:
            found.setdefault(head.team, head)
    ordered = sorted(found.values(), key=lambda h: (-h.pending_since_ms, h.team))
    turns: dict[str, int] = {}
    chosen = []
    for head in reversed(ordered):
        pool = demand[head.team].pool
        turns[pool] = turns.get(pool, 0) + _has_turn(head)
        if not (_has_turn(head) and turns[pool] > STUCK_TEAMS_OF_A_POOL):
            chosen.append(head)
    return chosen[::-1]


def _kept(
    head: StuckHead, bid: TeamBid, views: dict[str, JobView], result: ClearingResult
) -> set[str] | None:
    """Return the jobs of a team that stay demand; None: nothing is cut."""
    price = result.pools[bid.pool].price_micro
    room = result.teams[bid.team].allocated_macc
    if price is None or room == 0:
        return None
    asking = [job for job in bid.jobs if job.limit_micro != 0]
    paying = {j.job for j in asking if j.limit_micro is None or j.limit_micro >= price}
    first = views[head.job]
    if first.offer.job not in paying:
        return None
    kept: set[str] = set()
    for job in asking:
        view = views[f"{bid.team}/{job.job}"]
        if view.running_in is None:
            continue
        room -= job.size_macc if job.job in paying else 0
        if not _gives_way(head, view):
            kept.add(job.job)
    if _has_turn(head):
        return None if first.size_macc <= room else kept
    for job in asking:
        is_pending = views[f"{bid.team}/{job.job}"].running_in is None
        if is_pending and job.job in paying and job.size_macc <= room:
            kept.add(job.job)
            room -= job.size_macc
    return None if first.offer.job in kept or room <= 0 else kept


def _has_turn(head: StuckHead) -> bool:
    return head.turn_since_ms is not None


def _gives_way(head: StuckHead, view: JobView) -> bool:
    """Whether a job that holds devices gives way to a first job in its turn."""
    if head.turn_since_ms is None:
        return False
    began = -1 if view.started_ms is None else view.started_ms
    return view.draining or view.runs_for_nothing or began > head.turn_since_ms


def _cut(head: StuckHead, bid: TeamBid, kept: set[str], views: dict[str, JobView]) -> TeamBid:
    """Let what is not kept ask for nothing; in a turn only what runs for nothing may do so."""
    jobs = []
    for job in bid.jobs:
        if job.job in kept:
            jobs.append(job)
        elif not _has_turn(head):
            jobs.append(replace(job, limit_micro=0))
        elif job.limit_micro == 0 and views[f"{bid.team}/{job.job}"].running_in is not None:
            jobs.append(job)
    left = tuple(jobs)
    return replace(bid, jobs=left, demand_macc=sum(job.size_macc for job in left))
