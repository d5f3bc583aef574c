"""Specification of `bidder` and `offers`, job by job (design §4 Bids 1-6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from walras_clearing import Job
from walras_clearing_service.job_hash import job_hash
from walras_clearing_service.model import BidderParameters
from walras_clearing_service.offers import MarketCount
from walras_clearing_service.reference_model import JobView, PlainCycleInput, TeamInput
from walras_clearing_service.reference_places import Places
from walras_contracts.quantities import LIMIT_MICRO_MAX, MACC_MAX, MICRO_PER_HOUR_MAX, PPM

MINUTES_PER_HOUR = 60
MACC_PER_ACCELERATOR = 1000
NO_BOUND = 2**63


@dataclass(frozen=True, slots=True)
class TeamBid:
    """A team in one market: what it bids (µcr per hour) and its demand in queue order."""

    team: str
    pool: str
    bid_micro_per_hour: int
    jobs: tuple[Job, ...]
    demand_macc: int


@dataclass(frozen=True, slots=True)
class PlainBidPlan:
    """What the bidder decided.

    ``bids`` holds per open market the teams with demand, by id. ``assigned`` and ``unplaceable``
    hold changes only, by job key in total order.
    """

    bids: Mapping[str, tuple[TeamBid, ...]]
    counts: Mapping[str, MarketCount]
    assigned: Mapping[str, str]
    unplaceable: Mapping[str, int | None]


def plan_bids(cycle_input: PlainCycleInput) -> PlainBidPlan:
    """Decide where every job is demand and what every team bids.

    Returns
    -------
    PlainBidPlan
        Bids in µcr per hour; in sum never above a team's cap nor above a pool's cap.
    """
    places = Places(cycle_input)
    homes = [[places.home(job) for job in team.jobs] for team in cycle_input.teams]
    _move(cycle_input, places, homes)
    assigned: dict[str, str] = {}
    unplaceable: dict[str, int | None] = {}
    drafts: list[_Draft] = []
    for team, team_homes in zip(cycle_input.teams, homes, strict=True):
        draft = _Draft(cycle_input, places, team)
        draft.collect(team_homes, assigned, unplaceable)
        drafts.append(draft)
    bids = _scaled_to_pools(cycle_input, drafts)
    counts = {name: _count(name, drafts) for name in places.sold}
    return PlainBidPlan(_by_market(places, drafts, bids), counts, assigned, unplaceable)


def team_cap(team: TeamInput, parameters: BidderParameters) -> int:
    """Return what a team may bid over all markets, µcr per hour (design §4 Bids 1)."""
    if team.exhausted:
        return 0
    income = team.income_micro_per_hour
    levered = team.leverage_ppm * income // PPM
    from_wallet = team.wallet_micro * MINUTES_PER_HOUR // parameters.minimum_affordable_minutes
    return max(0, min(levered, income + from_wallet))


def split_cap(cap: int, wanted_macc: Mapping[str, int]) -> dict[str, int]:
    """Split a cap over markets by demand, floored (design §4 Bids 3)."""
    total = sum(wanted_macc.values())
    if total == 0:
        return dict.fromkeys(wanted_macc, 0)
    return {market: cap * macc // total for market, macc in wanted_macc.items()}


def retained_limit(limit_micro: int, retention_gap_ppm: int) -> int:
    """Return the limit that a running job carries into the auction (design §4 Bids 5)."""
    return min(LIMIT_MICRO_MAX, limit_micro * (PPM + retention_gap_ppm) // PPM)


def largest_affordable_macc(team: TeamInput, price_micro: int | None) -> int:
    """Return the largest gang that leverage × income pays at a price (design §4 Bids 6)."""
    if not price_micro:
        return NO_BOUND
    levered = team.leverage_ppm * team.income_micro_per_hour
    return levered * MACC_PER_ACCELERATOR // (price_micro * PPM)


def is_left_out(since_cycle: int, cycle: int, after_cycles: int) -> bool:
    """Whether a job without a place is no demand now: from `after_cycles` on, retried every so."""
    period = max(1, after_cycles)
    count = cycle - since_cycle
    return count == period or (count > period and count % period != 0)


def _move(cycle_input: PlainCycleInput, places: Places, homes: list[list[str | None]]) -> None:
    """Move pending jobs to cheaper markets (design §4 Bids 2), changing ``homes`` in place."""
    wishes: list[tuple[int, str, int, int, str, str]] = []
    for row, team in enumerate(cycle_input.teams):
        for column, job in enumerate(team.jobs):
            home = homes[row][column]
            if job.running_in is not None or home is None or len(job.types) == 1:
                continue
            choice = places.choice(job, home, team.pool)
            if choice is None:
                continue
            target, bound, source = choice
            drawn = job_hash(job.key, cycle_input.cycle)
            if drawn < bound:
                wishes.append((drawn, job.key, row, column, target, source))
    # The hash leads the total order, so that no team goes first in every cycle.
    wishes.sort()
    moved: dict[str, int] = {}
    for _, _, row, column, target, source in wishes:
        if source:
            size = cycle_input.teams[row].jobs[column].size_macc
            unsold, before = places.unsold(source), moved.get(source, 0)
            # Half of what was left unsold at most; a single job may take all of it, or no large job
            # could ever reach a free market (docs/decisions/0007-moves-into-free-markets.md).
            if size > (unsold if before == 0 else unsold // 2 - before):
                continue
            moved[source] = before + size
        homes[row][column] = target


@dataclass(slots=True)
class _Share:
    """A team's part of one market while it is collected; sizes in macc.

    ``willing_macc`` is what may draw a bid, ``bidding_macc`` what of it does at the last price.
    """

    price_micro: int | None
    gang_max_macc: int
    jobs: list[Job] = field(default_factory=list)
    macc: int = 0
    willing_macc: int = 0
    bidding_macc: int = 0
    seen: int = 0
    running: int = 0
    running_macc: int = 0
    holding: dict[str, None] = field(default_factory=dict)
    """Of ``jobs`` those that hold devices."""


class _Draft:
    """A team's demand by market while it is collected."""

    __slots__ = ("_cycle", "_now_ms", "_parameters", "_places", "cap", "shares", "team")

    def __init__(self, cycle_input: PlainCycleInput, places: Places, team: TeamInput) -> None:
        self.team = team
        self._cycle = cycle_input.cycle
        self._now_ms = cycle_input.market_time_ms
        self._parameters = cycle_input.parameters
        self._places = places
        self.cap = team_cap(team, cycle_input.parameters)
        self.shares: dict[str, _Share] = {}

    def collect(
        self,
        homes: list[str | None],
        assigned: dict[str, str],
        unplaceable: dict[str, int | None],
    ) -> None:
        """Put every job where it is demand; add to ``assigned`` and ``unplaceable`` what changed.

        What is no demand (design §4 Bids 6) is left out, and so is a pending job that is larger
        than all that its market has: it could only take what others can use.
        """
        sold, open_markets = self._places.sold, self._places.open
        for job, home in zip(self.team.jobs, homes, strict=True):
            size, pending = job.size_macc, job.running_in is None
            oversize = home is None or size > sold[home]
            strange = oversize or job.refused or job.unplaceable_since is not None
            if pending and strange and self._is_left_out(job, home, unplaceable):
                continue
            if home is None:
                continue
            # What was derived (the first type) needs no record; a move or a run does.
            if home != (job.assigned or job.types[0]):
                assigned[job.key] = home
            share = self.shares.get(home) or self._open(home)
            share.seen += 1
            if not pending:
                share.running += 1
                share.running_macc += size
                share.holding[job.offer.job] = None
            elif oversize or (size > share.gang_max_macc and job.gang and job.limit_micro != 0):
                continue
            if home in open_markets:
                self._take(job, share)

    def bids(self) -> dict[str, int]:
        """Return the whole cap split over the markets by demand (design §4 Bids 3).

        Jobs with a limit below half of the last price do not count, unless there are no others.
        """
        wanted = {market: share.bidding_macc for market, share in self.shares.items()}
        if not any(wanted.values()):
            wanted = {market: share.willing_macc for market, share in self.shares.items()}
        return split_cap(self.cap, wanted)

    def _take(self, job: JobView, share: _Share) -> None:
        limit, size, offer = job.limit_micro, job.size_macc, job.offer
        if limit and job.started_ms is not None and self._is_retained(job, job.started_ms):
            limit = retained_limit(limit, self._parameters.retention_gap_ppm)
            offer = replace(offer, limit_micro=limit)
        share.jobs.append(offer)
        share.macc += size
        if limit == 0:
            return
        share.willing_macc += size
        if limit is None or share.price_micro is None or 2 * limit >= share.price_micro:
            share.bidding_macc += size

    def _is_left_out(
        self, job: JobView, home: str | None, unplaceable: dict[str, int | None]
    ) -> bool:
        """Note whether there is a place for a pending job; return whether it waits for one."""
        since = job.unplaceable_since
        if not job.refused and self._places.fits(job, home):
            if since is not None:
                unplaceable[job.key] = None
            return False
        if since is None:
            unplaceable[job.key] = since = self._cycle
        return is_left_out(since, self._cycle, self._parameters.unplaceable_after_cycles)

    def _open(self, market: str) -> _Share:
        price = self._places.price(market, self.team.pool)
        # A team that bids nothing pays nothing: its jobs may still run on leftovers.
        bound = largest_affordable_macc(self.team, price) if self.cap else NO_BOUND
        share = self.shares[market] = _Share(price, bound)
        return share

    def _is_retained(self, job: JobView, started_ms: int) -> bool:
        return not job.draining and self._now_ms < started_ms + job.minimum_run_ms


def _count(market: str, drafts: list[_Draft]) -> MarketCount:
    shares = [draft.shares[market] for draft in drafts if market in draft.shares]
    running = sum(share.running for share in shares)
    queued = sum(share.seen for share in shares) - running
    return MarketCount(queued, running, sum(share.running_macc for share in shares))


def _scaled_to_pools(cycle_input: PlainCycleInput, drafts: list[_Draft]) -> list[dict[str, int]]:
    """Return every team's bids, scaled where a pool's sum exceeds its cap (design §4 Bids 4)."""
    bids = [draft.bids() for draft in drafts]
    sums: dict[str, int] = {}
    for draft, team_bids in zip(drafts, bids, strict=True):
        pool = draft.team.pool
        sums[pool] = sums.get(pool, 0) + sum(team_bids.values())
    caps = {
        pool.pool: min(MICRO_PER_HOUR_MAX, pool.leverage_ppm * pool.weight_micro_per_hour // PPM)
        for pool in cycle_input.pools
    }
    scaled = []
    for draft, team_bids in zip(drafts, bids, strict=True):
        total, cap = sums[draft.team.pool], caps[draft.team.pool]
        if total > cap:
            scaled.append({market: bid * cap // total for market, bid in team_bids.items()})
        else:
            scaled.append(team_bids)
    return scaled


def _by_market(
    places: Places, drafts: list[_Draft], bids: list[dict[str, int]]
) -> dict[str, tuple[TeamBid, ...]]:
    found: dict[str, list[TeamBid]] = {name: [] for name in places.open}
    rooms = {name: _Room.of(name, drafts) for name in places.open}
    for draft, team_bids in zip(drafts, bids, strict=True):
        for market, share in draft.shares.items():
            if not share.jobs:
                continue
            jobs, macc = rooms[market].admit(share)
            team = draft.team
            found[market].append(TeamBid(team.team, team.pool, team_bids[market], jobs, macc))
    return {name: tuple(found[name]) for name in found}


@dataclass(slots=True)
class _Room:
    """What a market can take at all (design §4): all jobs that hold devices, then the others.

    Only where the sizes offered exceed 10^15 macc does anything wait: pending jobs, beyond what is
    left in order of team and queue.
    """

    is_short: bool
    left_macc: int

    @staticmethod
    def of(market: str, drafts: list[_Draft]) -> "_Room":
        """Return the room of a market once all jobs that hold devices are in."""
        shares = [draft.shares[market] for draft in drafts if market in draft.shares]
        held = sum(share.running_macc for share in shares)
        return _Room(sum(share.macc for share in shares) > MACC_MAX, MACC_MAX - held)

    def admit(self, share: _Share) -> tuple[tuple[Job, ...], int]:
        """Return the jobs of a share that have room, in queue order, and their size (macc)."""
        if not self.is_short:
            return tuple(share.jobs), share.macc
        jobs = []
        for job in share.jobs:
            if job.job not in share.holding:
                if job.size_macc > self.left_macc:
                    continue
                self.left_macc -= job.size_macc
            jobs.append(job)
        return tuple(jobs), sum(job.size_macc for job in jobs)
