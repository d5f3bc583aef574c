"""What an explanation says: data with codes, its JSON form, and words for people."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class JobState(StrEnum):
    """How a job came out of the auction."""

    IN = "in"
    """Its team's quota covers it wholly."""
    PART = "part"
    """The quota ends within it."""
    OPPORTUNISTIC = "opportunistic"
    """It has no part of the quota, but of what nobody bought."""
    OUT = "out"
    """It has nothing."""


class ShortOf(StrEnum):
    """What keeps a job from running on its team's quota, in order of precedence."""

    PRICE = "price"
    """Its limit lies below the pool price: `amount_micro`, µcr per accelerator-hour, is missing."""
    BUDGET = "budget"
    """The team's money ends before or within it: `amount_micro`, µcr per hour at this price."""
    SUPPLY = "supply"
    """There is not enough: at a tie at the margin, without any supply, or of the leftovers."""
    RESERVE = "reserve"
    """The reserve holds the pool price up by `amount_micro`, or leftovers back."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One thing that a job is short of.

    `amount_micro` is money in the unit that `ShortOf` names, None where money is not what is
    missing; `amount_macc` is what the job does not get for this reason.
    """

    short_of: ShortOf
    amount_micro: int | None
    amount_macc: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value at which the job runs, one less does not; and the prices that would then hold."""

    value_micro: int
    pool_price_micro: int | None
    reference_price_micro: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one job is in or out; `walras_clearing.queue_share` defines "runs", "part" and "ahead".

    ============================  =================================================================
    field                         content
    ============================  =================================================================
    ``queue_position``            index in its team's queue, from 0
    ``team_allocated_macc``       the team's quota, all of it
    ``ahead_macc``                what takes part before it in the queue
    ``bought_macc``               its part of the quota
    ``opportunistic_macc``        its part of the leftovers
    ``pool_price_micro``          µcr per accelerator-hour; None where absent, as of `PoolResult`
    ``highest_price_micro``       the highest pool price at which limit and bid let it run
    ``shortages``                 empty where it is in
    ``least_limit``               the least limit at which it would run, all else equal
    ``least_bid``                 the least bid of its team at which it would run, all else equal
    ============================  =================================================================

    A threshold is None where no value in range does: a limit above what the bid covers, or a bid
    that lifts the price above the limit before it covers the job. `explain` says how exact it is.
    """

    team: str
    job: str
    pool: str
    size_macc: int
    limit_micro: int | None
    bid_micro_per_hour: int
    queue_position: int
    state: JobState
    team_allocated_macc: int
    ahead_macc: int
    bought_macc: int
    opportunistic_macc: int
    reference_price_micro: int | None
    pool_price_micro: int | None
    highest_price_micro: int
    shortages: tuple[Shortage, ...]
    least_limit: Threshold | None
    least_bid: Threshold | None

    def as_document(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        return asdict(self)

    def to_json(self) -> str:
        """One line of ASCII JSON, equal for equal explanations byte for byte."""
        return json.dumps(self.as_document(), separators=(",", ":"))

    def to_lines(self) -> list[str]:
        """Return the explanation for people, one sentence a line."""
        who = f"{plain(self.job)} of team {plain(self.team)} in pool {plain(self.pool)}"
        quota = f"quota: {self.bought_macc:,} of {self.size_macc:,} macc"
        quota += f", behind {self.ahead_macc:,} macc of the queue"
        quota += f"; the team has {self.team_allocated_macc:,}"
        if self.opportunistic_macc:
            quota += f"; of the leftovers {self.opportunistic_macc:,}"
        price = f"price: pool {amount(self.pool_price_micro)}"
        price += f", reference {amount(self.reference_price_micro)} µcr per accelerator-hour"
        price += f"; limit and bid reach up to {self.highest_price_micro:,}"
        return [
            f"{who}: {_STATES[self.state]}",
            quota,
            price,
            *(f"short of {short.short_of}: {_words(self, short)}" for short in self.shortages),
            f"least limit to run: {_threshold(self.least_limit, self.limit_micro)}",
            f"least bid to run: {_threshold(self.least_bid, self.bid_micro_per_hour)}",
        ]


_STATES = {
    JobState.IN: "in, it runs",
    JobState.PART: "partly in",
    JobState.OPPORTUNISTIC: "opportunistic, on what nobody bought",
    JobState.OUT: "out",
}


def plain(text: str) -> str:
    """Return an id as it is, or JSON-escaped where it would break or disguise the line."""
    return text if text.isprintable() and text.strip() == text else json.dumps(text)


def amount(value: int | None, absent: str = "absent") -> str:
    """Return a figure for people."""
    return absent if value is None else f"{value:,}"


def _words(explanation: Explanation, short: Shortage) -> str:
    micro, macc = amount(short.amount_micro), f"{short.amount_macc:,} macc"
    if short.short_of is ShortOf.PRICE:
        return f"its limit of {amount(explanation.limit_micro)} lies {micro} µcr too low"
    if short.short_of is ShortOf.BUDGET:
        return f"the bid ends {macc} early; at this price {micro} µcr/h are missing"
    if short.short_of is ShortOf.RESERVE:
        return f"without the reserve the pool price would be {micro} µcr lower ({macc} more)"
    if explanation.pool_price_micro is None:
        return f"nothing is for sale to this pool ({macc})"
    tied = explanation.shortages[0] is short
    return f"{macc} are missing " + ("in a tie at the pool price" if tied else "of the leftovers")


def _threshold(threshold: Threshold | None, now: int | None) -> str:
    if threshold is None:
        return f"no value in range does (now {amount(now, 'none')})"
    value = f"{threshold.value_micro:,} (now {amount(now, 'none')})"
    return f"{value}, which makes the pool price {amount(threshold.pool_price_micro)}"
