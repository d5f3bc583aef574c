"""`simulate`: clear a market with and without changes, and say what differs; nothing is written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from walras_clearing.clear import clear
from walras_clearing.errors import ClearingInputError
from walras_clearing.explain import explain, locate
from walras_clearing.explanation import Explanation
from walras_clearing.instance import (
    document_of,
    fields_of,
    integer_of,
    optional_integer_of,
    string_of,
)
from walras_clearing.model import ClearingResult, Job, Market, PoolResult, Team, TeamResult
from walras_clearing.validate import quoted, validate


@dataclass(frozen=True, slots=True)
class AddJob:
    """A job more; at the end of its team's queue unless a place (from 0) is given."""

    team: str
    job: Job
    queue_position: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveJob:
    """A job less."""

    team: str
    job: str


@dataclass(frozen=True, slots=True)
class SetBid:
    """Another bid of a team, µcr per hour."""

    team: str
    bid_micro_per_hour: int


Change = AddJob | RemoveJob | SetBid

R = TypeVar("R", PoolResult, TeamResult)


@dataclass(frozen=True, slots=True)
class Simulation:
    """A market's results without and with changes, and the added jobs explained."""

    before: ClearingResult
    after: ClearingResult
    added: tuple[Explanation, ...]

    def changed_pools(self) -> dict[str, tuple[PoolResult, PoolResult]]:
        """Return the pools whose outcome differs, before and after, in id order."""
        return _changed(self.before.pools, self.after.pools)

    def changed_teams(self) -> dict[str, tuple[TeamResult, TeamResult]]:
        """Return the teams whose quota or leftovers differ, before and after, in id order."""
        return _changed(self.before.teams, self.after.teams)

    def as_document(self) -> dict[str, object]:
        """Return the differences as JSON values."""
        return {
            "reference_price_micro": {
                "before": self.before.reference_price_micro,
                "after": self.after.reference_price_micro,
            },
            "pools": _pairs(self.changed_pools()),
            "teams": _pairs(self.changed_teams()),
            "added": [explanation.as_document() for explanation in self.added],
        }

    def to_json(self) -> str:
        """One line of ASCII JSON, equal for equal simulations byte for byte."""
        return json.dumps(self.as_document(), separators=(",", ":"))


def simulate(market: Market, changes: Sequence[Change]) -> Simulation:
    """Answer what would happen if.

    Parameters
    ----------
    market
        The market as it is.
    changes
        Applied one after another. What is added and not removed again is explained in the market
        that all changes make.

    Raises
    ------
    ClearingInputError
        When the market, or what the changes make of it, is out of range; or when a change names a
        team or job that does not exist, or adds one that does.
    """
    before = clear(market)
    changed = market
    for change in changes:
        changed = apply(changed, change)
    validate(changed)
    after = clear(changed)
    kept = [
        (change.team, change.job.job)
        for change in changes
        if isinstance(change, AddJob) and _has_job(changed, change.team, change.job.job)
    ]
    added = tuple(explain(changed, team, job) for team, job in dict.fromkeys(kept))
    return Simulation(before, after, added)


def parse_job(data: bytes | str) -> AddJob:
    """Read a job to add from JSON.

    The form is ``{"team", "job", "size_macc", "limit_micro": integer | null, "queue_position"?}``;
    without a position, counted from 0, the job goes to the end of its team's queue.

    Raises
    ------
    ClearingInputError
        For the first thing that is not exactly the form; ranges are checked with the market.
    """
    needed = ("team", "job", "size_macc", "limit_micro")
    fields = fields_of("$", document_of(data), needed, ("queue_position",))
    job = Job(
        string_of("$.job", fields["job"]),
        integer_of("$.size_macc", fields["size_macc"]),
        optional_integer_of("$.limit_micro", fields["limit_micro"]),
    )
    place = optional_integer_of("$.queue_position", fields.get("queue_position"))
    return AddJob(string_of("$.team", fields["team"]), job, place)


def apply(market: Market, change: Change) -> Market:
    """Return the market with one change; its ranges are not checked.

    Raises
    ------
    ClearingInputError
        `unknown_team`, `unknown_job`, `duplicate_id` or `not_in_queue`.
    """
    if isinstance(change, RemoveJob):
        index, place = locate(market, change.team, change.job)
        team = market.teams[index]
        return _with_team(
            market, index, replace(team, jobs=team.jobs[:place] + team.jobs[place + 1 :])
        )
    index = _index_of(market, change.team)
    team = market.teams[index]
    if isinstance(change, SetBid):
        team = replace(team, bid_micro_per_hour=change.bid_micro_per_hour)
        return _with_team(market, index, team)
    path = f"$.teams[{index}].jobs"
    if _has_job(market, change.team, change.job.job):
        message = f"team {quoted(change.team)} has a job {quoted(change.job.job)} already"
        raise ClearingInputError("duplicate_id", path, message)
    place = len(team.jobs) if change.queue_position is None else change.queue_position
    if not 0 <= place <= len(team.jobs):
        message = f"the queue has {len(team.jobs)} jobs, so there is no place {place} in it"
        raise ClearingInputError("not_in_queue", path, message)
    jobs = (*team.jobs[:place], change.job, *team.jobs[place:])
    return _with_team(market, index, replace(team, jobs=jobs))


def _with_team(market: Market, index: int, team: Team) -> Market:
    return replace(market, teams=(*market.teams[:index], team, *market.teams[index + 1 :]))


def _index_of(market: Market, team: str) -> int:
    for index, candidate in enumerate(market.teams):
        if candidate.team == team:
            return index
    raise ClearingInputError("unknown_team", "$.teams", f"no team has the id {quoted(team)}")


def _has_job(market: Market, team: str, job: str) -> bool:
    queue = market.teams[_index_of(market, team)].jobs
    return any(queued.job == job for queued in queue)


def _changed(before: Mapping[str, R], after: Mapping[str, R]) -> dict[str, tuple[R, R]]:
    return {name: (old, after[name]) for name, old in before.items() if old != after[name]}


def _pairs(changed: Mapping[str, tuple[R, R]]) -> dict[str, object]:
    return {
        name: {"before": asdict(old), "after": asdict(new)} for name, (old, new) in changed.items()
    }
