"""What a team's quota means for one job of its queue, and up to which price it reaches it.

The auction sells to teams and knows no order within one. What a job gets is therefore read off its
team's quota, by these rules (design §4, §5):

- A job **takes part** at a pool price p where its team bids, its limit is not 0, and the limit is p
  or more (or there is none). A limit equal to the price takes part like any other.
- The quota goes to the jobs that take part, in queue order, to each as much as it wants while it
  lasts. Limits do not order a team's jobs; so where ties at the margin cut the quota of a team, the
  last of its queue is cut, whichever job was tied.
- A job **runs** where all of its size is covered so. Sizes are divisible here: the job at the end
  of the quota gets a part, which whole-job rounding may give to another later.
- Leftovers at price 0 go to the jobs that never take part (limit 0, or a team without a bid) in
  queue order, then to what the others still lack, in queue order: the order of the auction itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from walras_clearing.model import Job, Team, TeamResult
from walras_clearing.validate import BIDS_MAX_MICRO_PER_HOUR

MILLI: Final = 1000
"""A budget of b µcr/h buys ⌊1000·b/p⌋ macc at p µcr per accelerator-hour."""

PRICE_CEILING: Final = MILLI * BIDS_MAX_MICRO_PER_HOUR + 1
"""A price that no market in range exceeds."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a job gets, in macc.

    `ahead_macc` is what the jobs before it in the queue want that take part; `bought_macc` is its
    part of the quota, `opportunistic_macc` its part of the leftovers; `runs` tells whether the
    quota covers it wholly.
    """

    ahead_macc: int
    bought_macc: int
    opportunistic_macc: int
    runs: bool


def bids(team: Team, job: Job) -> bool:
    """Whether a job can take part at any price above 0: never with limit 0 or without a bid."""
    return team.bid_micro_per_hour > 0 and job.limit_micro != 0


def takes_part(team: Team, job: Job, price: int | None) -> bool:
    """Whether a job takes part at a pool price; an absent price is out of everybody's reach."""
    if price is None or not bids(team, job):
        return False
    return job.limit_micro is None or job.limit_micro >= price


def ahead_macc(team: Team, place: int, price: int | None) -> int:
    """Return what the jobs before a place of the queue want at a pool price, if there is one."""
    return sum(job.size_macc for job in team.jobs[:place] if takes_part(team, job, price))


def share_of_job(team: Team, place: int, price: int | None, quota: TeamResult) -> Share:
    """Spend a team's quota down to one job.

    Parameters
    ----------
    team, place
        The team, and the index of the job in its queue.
    price
        The price of its pool, µcr per accelerator-hour; None where it is absent.
    quota
        What the team got.
    """
    job, ahead = team.jobs[place], ahead_macc(team, place, price)
    leftover = _leftover(team, place, price, quota)
    if not takes_part(team, job, price):
        return Share(ahead, 0, leftover, runs=False)
    bought = min(job.size_macc, max(0, quota.allocated_macc - ahead))
    runs = ahead + job.size_macc <= quota.allocated_macc
    return Share(ahead, bought, leftover, runs)


def _leftover(team: Team, place: int, price: int | None, quota: TeamResult) -> int:
    """Spend a team's leftovers down to one job."""
    remaining = quota.opportunistic_macc
    for number, lacking in _lacking(team, price, quota.allocated_macc):
        part = min(remaining, lacking)
        if number == place:
            return part
        remaining -= part
    return 0


def _lacking(team: Team, price: int | None, bought: int) -> Iterator[tuple[int, int]]:
    """Yield place and unserved size in the order of the leftovers."""
    for number, job in enumerate(team.jobs):
        if not bids(team, job):
            yield number, job.size_macc
    for number, job in enumerate(team.jobs):
        if not bids(team, job):
            continue
        part = min(bought, job.size_macc) if takes_part(team, job, price) else 0
        bought -= part
        yield number, job.size_macc - part


def highest_price(team: Team, place: int) -> int:
    """Return the highest pool price at which a job's limit and its team's bid let it run.

    In µcr per accelerator-hour, at most `PRICE_CEILING`; 0 for a job that can have leftovers only.
    Whether there is supply at that price is another matter. Not every lower price need do: as the
    price falls, jobs ahead in the queue come back and spend the bid first.
    """
    job = team.jobs[place]
    if not bids(team, job):
        return 0
    highest = PRICE_CEILING if job.limit_micro is None else job.limit_micro
    returning = sorted(
        (
            (other.limit_micro, other.size_macc)
            for other in team.jobs[:place]
            if other.limit_micro is not None and 0 < other.limit_micro < highest
        ),
        reverse=True,
    )
    wanted = ahead_macc(team, place, highest) + job.size_macc
    for limit, size in returning:
        # Between two limits of jobs ahead only the bid bounds the price.
        affordable = min(highest, _affordable(team, wanted))
        if affordable > limit:
            return affordable
        highest, wanted = limit, wanted + size
    return min(highest, _affordable(team, wanted))


def _affordable(team: Team, wanted: int) -> int:
    """Return the highest price at which the bid covers a quantity."""
    return PRICE_CEILING if wanted == 0 else MILLI * team.bid_micro_per_hour // wanted
