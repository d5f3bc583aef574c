"""The guardrail of drains: may a session begin now? Pure functions of integers.

Within a sliding window of market time the macc of a team's sessions that were begun may not exceed
a part of what the team holds; one job always may. Between two drains of one job there is a
distance. A session that may not begin waits, at most the maximum delay. It counts begun drains in
a span of time, never per decision, so that deciding more often drains no more (R17).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras_contracts.accounts import DrainTerms
from walras_contracts.quantities import PPM

SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Begun:
    """A drain that was begun: when, of how much, of which job."""

    at_ms: int
    size_macc: int
    job: str
    session: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a session begins; if not, ``held_up_by`` names what it waits for.

    ``by_budget``: it is the budget of the team that holds it up, so that the sessions behind it
    wait, too. ``beyond_budget``: it begins although the guardrail holds it up.
    """

    begins: bool
    beyond_budget: bool = False
    by_budget: bool = False
    held_up_by: str = ""


def spent_macc(begun: Iterable[Begun], terms: DrainTerms, now_ms: int) -> int:
    """Return the macc of the drains begun within the window that ends now; its begin is outside."""
    return sum(b.size_macc for b in begun if b.at_ms > now_ms - terms.disruption_window_ms)


def verdict(
    *,
    terms: DrainTerms,
    now_ms: int,
    team: str,
    job: str,
    size_macc: int,
    held_macc: int,
    begun: Iterable[Begun],
    waited_ms: int,
    may_wait: bool,
    behind: bool = False,
) -> Verdict:
    """Decide whether a session begins.

    Parameters
    ----------
    terms
        In force now.
    now_ms
        Market time of the step.
    team, job, size_macc
        Whose lease it is, and how much it holds.
    held_macc
        What the team holds, this lease included.
    begun
        Drains of the team that were begun, cancelled ones included: they were disturbed, too.
    waited_ms
        For how long the session has been waiting.
    may_wait
        False where its reason cannot wait.
    behind
        Whether the budget holds up an older session of the team: a large job is not passed over
        until its maximum delay.
    """
    begun = tuple(begun)
    held_up_by, by_budget = "", False
    spent = spent_macc(begun, terms, now_ms)
    allowed = held_macc * terms.disruption_ppm // PPM
    last_ms = max((b.at_ms for b in begun if b.job == job), default=None)
    if last_ms is not None and now_ms - last_ms < terms.minimum_distance_ms:
        distance_s = terms.minimum_distance_ms // SECOND_MS
        held_up_by = f"job {job} was drained less than {distance_s} s ago"
    elif spent > 0 and spent + size_macc > allowed:
        window_s = terms.disruption_window_ms // SECOND_MS
        by_budget = True
        held_up_by = (
            f"disruption budget of team {team}: {spent} of {allowed} macc within {window_s} s"
        )
    elif behind:
        held_up_by = f"disruption budget of team {team}: an older drain waits for it"
    if not held_up_by:
        return Verdict(begins=True)
    if not may_wait or waited_ms >= terms.maximum_delay_ms:
        return Verdict(begins=True, beyond_budget=True)
    return Verdict(begins=False, by_budget=by_budget, held_up_by=held_up_by)


def forgotten_before_ms(terms: DrainTerms, now_ms: int) -> int:
    """Return up to when begun drains hold nothing up any more."""
    return now_ms - max(terms.disruption_window_ms, terms.minimum_distance_ms)
