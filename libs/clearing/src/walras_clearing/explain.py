"""`explain`: why a job is in or out of a cleared market, and what would change that."""

from walras_clearing.errors import ClearingInputError
from walras_clearing.explanation import Explanation, JobState, Shortage, ShortOf
from walras_clearing.model import Market
from walras_clearing.queue_share import MILLI, Share, bids, highest_price
from walras_clearing.validate import quoted, validate
from walras_clearing.variants import Case, Outcome, least_bid, least_limit


def explain(market: Market, team: str, job: str) -> Explanation:
    """Explain the outcome of one job, exactly.

    Parameters
    ----------
    market
        The market; prices in µcr per accelerator-hour, quantities in macc.
    team, job
        Whose job, and its id.

    Returns
    -------
    Explanation
        Its thresholds are found by bisection on the clearing of the whole market: at each the job
        runs, one less and it does not. As prices are monotone (theory §8.7) nothing lower does
        either, up to the rounding of one tick and of one macc: where prices are a few ticks, or a
        supply is a few macc, a lower value may, and one may where the threshold is None.

    Raises
    ------
    ClearingInputError
        When the market is out of range, or has no such team or job.
    """
    validate(market)
    case = Case(market, *locate(market, team, job))
    now = case.now()
    share, wanted = now.share, case.job
    return Explanation(
        team=team,
        job=job,
        pool=case.team.pool,
        size_macc=wanted.size_macc,
        limit_micro=wanted.limit_micro,
        bid_micro_per_hour=case.team.bid_micro_per_hour,
        queue_position=case.place,
        state=_state(share),
        team_allocated_macc=now.quota.allocated_macc,
        ahead_macc=share.ahead_macc,
        bought_macc=share.bought_macc,
        opportunistic_macc=share.opportunistic_macc,
        reference_price_micro=now.reference,
        pool_price_micro=now.price,
        highest_price_micro=highest_price(case.team, case.place),
        shortages=_shortages(case, now),
        least_limit=least_limit(case),
        least_bid=least_bid(case, now),
    )


def locate(market: Market, team: str, job: str) -> tuple[int, int]:
    """Return the indices of a team in a market and of a job in its queue.

    Raises
    ------
    ClearingInputError
        `unknown_team` or `unknown_job`.
    """
    for index, candidate in enumerate(market.teams):
        if candidate.team != team:
            continue
        for place, queued in enumerate(candidate.jobs):
            if queued.job == job:
                return index, place
        message = f"team {quoted(team)} has no job {quoted(job)}"
        raise ClearingInputError("unknown_job", f"$.teams[{index}].jobs", message)
    raise ClearingInputError("unknown_team", "$.teams", f"no team has the id {quoted(team)}")


def team_of_job(market: Market, job: str) -> str:
    """Return the one team that has a job of an id.

    Raises
    ------
    ClearingInputError
        `unknown_job`, or `ambiguous_job` where several teams have one.
    """
    owners = [t.team for t in market.teams if any(queued.job == job for queued in t.jobs)]
    if not owners:
        raise ClearingInputError("unknown_job", "$.teams", f"no team has a job {quoted(job)}")
    if len(owners) > 1:
        message = f"job {quoted(job)} is in {len(owners)} teams, such as {quoted(owners[0])} and "
        message += f"{quoted(owners[1])}: name the team"
        raise ClearingInputError("ambiguous_job", "$.teams", message)
    return owners[0]


def _state(share: Share) -> JobState:
    if share.runs:
        return JobState.IN
    if share.bought_macc:
        return JobState.PART
    return JobState.OPPORTUNISTIC if share.opportunistic_macc else JobState.OUT


def _shortages(case: Case, now: Outcome) -> tuple[Shortage, ...]:
    """List what a job that does not run is short of, by precedence."""
    if now.share.runs:
        return ()
    job, bid = case.job, case.team.bid_micro_per_hour
    price = now.price or 0
    missing = job.size_macc - now.share.bought_macc
    found: list[Shortage] = []
    level = max(1, price)  # nothing that bids 0 takes part, whatever the price
    if job.limit_micro is not None and job.limit_micro < level:
        found.append(Shortage(ShortOf.PRICE, level - job.limit_micro, missing))
    end = case.end_of_job(price)
    reach = MILLI * bid // price if price else end * (bid > 0)
    if reach < end or not bid:
        uncovered = min(job.size_macc, end - reach)
        found.append(Shortage(ShortOf.BUDGET, case.cost(price) - bid, uncovered))
    if now.price is None or not found:
        found.append(Shortage(ShortOf.SUPPLY, None, missing))
    elif not bids(case.team, job) and now.share.opportunistic_macc < job.size_macc:
        found.append(Shortage(ShortOf.SUPPLY, None, job.size_macc - now.share.opportunistic_macc))
    held = _reserve(case, now)
    return tuple(found) if held is None else (*found, held)


def _reserve(case: Case, now: Outcome) -> Shortage | None:
    """Return what the reserve takes from the job, if it sets the price and takes anything."""
    reserve = case.market.reserve_price_micro
    if reserve == 0 or now.reference != reserve:
        return None
    without = case.without_reserve()
    lower = (now.price or 0) - (without.price or 0)
    gain = _served(without.share) - _served(now.share)
    return Shortage(ShortOf.RESERVE, lower, max(0, gain)) if lower > 0 or gain > 0 else None


def _served(share: Share) -> int:
    return share.bought_macc + share.opportunistic_macc
