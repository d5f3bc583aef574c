"""What is decided about a delivery: until when it is tried, when again, whether it is over."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from walras_contracts.drains import NotificationIssued
from walras_notifier.outcomes import Delivered, Outcome, Refused

Draw = Callable[[int], int]
"""Gives a random integer from 0 to its argument, both included."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How deliveries are tried.

    Parameters
    ----------
    first_backoff_ms, most_backoff_ms
        The wait before attempt n + 1 is random, from 0 to ``first · 2^(n−1)``, at most ``most``.
    give_up_after_ms
        How long after its issue a notice with neither deadline nor expiry is tried.
    connections
        So many attempts at one receiver may be under way at once, for different teams.
    most_open
        With so many deliveries that are not over, no more notices are taken.
    """

    first_backoff_ms: int = 1_000
    most_backoff_ms: int = 300_000
    give_up_after_ms: int = 86_400_000
    connections: int = 4
    most_open: int = 20_000


class Fate(StrEnum):
    """What became of an attempt, or of a delivery."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    EXPIRED = "expired"
    """Given up: nobody needs it any more."""
    REFUSED = "refused"
    """Given up: the receiver will not take it."""


GIVEN_UP = frozenset({Fate.EXPIRED, Fate.REFUSED})


def limit_ms(notice: NotificationIssued, give_up_after_ms: int) -> int:
    """Return the market time from which a notice is not sent any more.

    Its deadline or expiry, whichever is first; where it has none, so long after its issue.
    """
    ends = [at_ms for at_ms in (notice.deadline_ms, notice.expires_ms) if at_ms is not None]
    return min(ends, default=notice.issued_ms + give_up_after_ms)


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks at one moment: wall clock and a clock that never jumps, both ms."""

    wall_ms: int
    monotonic_ms: int


def on_monotonic(
    market_time_ms: int,
    issued_ms: int,
    stamp_ms: int,
    clocks: Clocks,
    mode: Literal["live", "replay"],
) -> int:
    """Return when a market time is, on the monotonic clock.

    Parameters
    ----------
    market_time_ms
        The time that is asked for.
    issued_ms
        Market time at which the notice was issued.
    stamp_ms
        Wall clock at which the broker wrote it down.
    clocks
        Now.
    mode
        Live, market time is the wall clock. In a replay it is some other time, and passes from
        when the broker wrote the notice down.
    """
    wall_ms = market_time_ms if mode == "live" else stamp_ms + market_time_ms - issued_ms
    return clocks.monotonic_ms + wall_ms - clocks.wall_ms


def backoff_ms(attempts: int, policy: Policy, draw: Draw) -> int:
    """Return the wait after so many attempts (at least one): exponential, with full jitter."""
    most = policy.most_backoff_ms
    # Beyond 2^30 the doubling says nothing, and an integer would grow without end.
    span = min(most, policy.first_backoff_ms << min(attempts - 1, 30))
    return max(1, draw(span))


def fate_of(outcome: Outcome) -> Fate:
    """Return what an outcome makes of a delivery; whether there is time left is seen later."""
    if isinstance(outcome, Delivered):
        return Fate.DELIVERED
    return Fate.REFUSED if isinstance(outcome, Refused) else Fate.RETRIED
