"""The quota ladder: market, then snapshot, then disk, then the contracted floor (design §7).

Pure: it is given what each source answered and how old that is, and says what a team may occupy.
"Unknown" is an answer of its own; it is never turned into zero, into free, or into fresh.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from walras_client.scaling import fit
from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet


class Source(StrEnum):
    """Where an answer is from; the first three are the rungs in order."""

    MARKET = "market"
    SNAPSHOT = "snapshot"
    DISK = "disk"
    FLOOR = "floor"
    UNKNOWN = "unknown"


RUNGS = (Source.MARKET, Source.SNAPSHOT, Source.DISK)


class Verdict(StrEnum):
    """What the ladder made of one source."""

    TAKEN = "taken"
    NOT_NEEDED = "not_needed"
    """Fresh too, but not newer than the one taken."""
    TOO_OLD = "too_old"
    CLOCK_SKEW = "clock_skew"
    """Published in the future of the reader's clock: its age cannot be told."""
    OTHER_LOG = "other_log"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one source answered; ``fault`` is the code of what went wrong, if something did."""

    source: Source
    quotas: QuotaSheet | None = None
    floor: FloorSheet | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Age:
    """How old something is: in ms for outside readers, in barriers for inside ones."""

    ms: int | None = None
    barriers: int | None = None


class Aging(Protocol):
    """How a reader ages what it has read."""

    def age(self, place: Place) -> Age | None:
        """Return the age; None when it cannot be told."""

    def fresh(self, age: Age) -> bool:
        """Whether quotas of that age still count."""


@dataclass(frozen=True, slots=True)
class OutsideClock:
    """Ages by the reader's own clock against the time of publication.

    Parameters
    ----------
    now_ms
        The reader's wall clock.
    max_quota_age_ms
        Older quotas do not count any more.
    max_clock_skew_ms
        How far the reader's clock may be behind the broker's.
    """

    now_ms: int
    max_quota_age_ms: int
    max_clock_skew_ms: int = 5_000

    def age(self, place: Place) -> Age | None:
        """Return the age in ms; None where it was published too far in the future."""
        age_ms = self.now_ms - place.published_at_ms
        return None if age_ms < -self.max_clock_skew_ms else Age(ms=max(0, age_ms))

    def fresh(self, age: Age) -> bool:
        """Whether quotas of that age still count."""
        return age.ms is not None and age.ms <= self.max_quota_age_ms


@dataclass(frozen=True, slots=True)
class InsideClock:
    """Ages by barriers: where none are written, market time stands still and nothing ages.

    Parameters
    ----------
    barrier
        The newest barrier that the reader has seen in any topic.
    max_quota_age_barriers
        Quotas shown by older barriers do not count any more.
    """

    barrier: int
    max_quota_age_barriers: int

    def age(self, place: Place) -> Age | None:
        """Return the age in barriers."""
        return Age(barriers=max(0, self.barrier - place.barrier))

    def fresh(self, age: Age) -> bool:
        """Whether quotas of that age still count."""
        return age.barriers is not None and age.barriers <= self.max_quota_age_barriers


@dataclass(frozen=True, slots=True)
class Answer:
    """What a team may occupy, and on whose word.

    ``quotas`` is None where it is not known (``reason`` says why): that is neither nothing nor
    anything. ``scaled`` names the markets in which capacity was taken back since.
    """

    team: str
    source: Source
    reason: str
    place: Place | None
    age: Age | None
    granted_in: int | None
    quotas: Mapping[str, Quota] | None
    scaled: tuple[str, ...]
    tried: tuple[tuple[Source, str], ...]


def log_in_force(sightings: Sequence[Sighting], expected: str | None) -> str | None:
    """Return the id of the log to believe.

    It is the one expected; else what the market itself showed; else the one of the reader's own
    file, which the broker named once, before that of a snapshot: anybody's may lie in a Redis.
    """
    if expected is not None:
        return expected
    for source in (Source.MARKET, Source.DISK, Source.SNAPSHOT):
        for sighting in sightings:
            sheet = sighting.quotas or sighting.floor
            if sighting.source == source and sheet is not None:
                return sheet.place.log_id
    return None


def answer(
    team: str, sightings: Sequence[Sighting], aging: Aging, *, expected_log: str | None = None
) -> Answer:
    """Return what a team may occupy.

    The newest fresh quotas count, whichever source has them; of equally new ones the first rung.
    Where none are fresh, the newest contracted floor counts, however old. Both are scaled down to
    the newest supply that any source knows.

    Parameters
    ----------
    team
        Whose quota.
    sightings
        What the sources answered, one per source.
    aging
        How old things are.
    expected_log
        Id of the log, where the reader knows it; what is from another log does not count.
    """
    log = log_in_force(sightings, expected_log)
    verdicts = {s.source: _verdict(s, log, aging) for s in sightings}
    fresh = [s.quotas for s in _rungs(sightings) if verdicts[s.source] == Verdict.NOT_NEEDED]
    sheets = [s.quotas for s in _rungs(sightings) if s.quotas and s.quotas.place.log_id == log]
    supply = max(sheets, key=lambda sheet: sheet.place.order()).supply if sheets else None
    best = max(
        (sheet for sheet in fresh if sheet is not None),
        key=lambda sheet: sheet.place.order(),
        default=None,
    )
    if best is not None:
        source = next(s.source for s in _rungs(sightings) if s.quotas is best)
        verdicts[source] = Verdict.TAKEN
        return _answered(
            team,
            source,
            best.place,
            aging=aging,
            teams=best.teams,
            supply=supply,
            tried=_tried(sightings, verdicts),
            granted_in=best.granted_in.get(team),
        )
    floors = [s.floor for s in _rungs(sightings) if s.floor and s.floor.place.log_id == log]
    floor = max(floors, key=lambda sheet: sheet.place.order(), default=None)
    if floor is None:
        tried = _tried(sightings, verdicts)
        return Answer(team, Source.UNKNOWN, "nothing_known", None, None, None, None, (), tried)
    contracted = {
        name: {market: Quota(macc) for market, macc in markets.items()}
        for name, markets in floor.teams.items()
    }
    return _answered(
        team,
        Source.FLOOR,
        floor.place,
        aging=aging,
        teams=contracted,
        supply=supply,
        tried=_tried(sightings, verdicts),
        granted_in=None,
    )


def _answered(
    team: str,
    source: Source,
    place: Place,
    *,
    aging: Aging,
    teams: Mapping[str, Mapping[str, Quota]],
    supply: Mapping[str, int] | None,
    tried: tuple[tuple[Source, str], ...],
    granted_in: int | None,
) -> Answer:
    age = aging.age(place)
    if team not in teams:
        # A list that does not name a team says nothing of it; that is not a quota of zero.
        return Answer(team, Source.UNKNOWN, "team_unknown", place, age, None, None, (), tried)
    quotas: dict[str, Quota] = {}
    scaled: list[str] = []
    for market in sorted(teams[team]):
        all_of_it = {name: held[market] for name, held in teams.items() if market in held}
        quotas[market] = teams[team][market]
        if supply is not None:
            # Capacity that the newest supply does not name is not there.
            quotas[market] = fit(all_of_it, supply.get(market, 0))[team]
        if quotas[market] != teams[team][market]:
            scaled.append(market)
    reason = "quotas_too_old" if source == Source.FLOOR else "fresh"
    return Answer(team, source, reason, place, age, granted_in, quotas, tuple(scaled), tried)


def _verdict(sighting: Sighting, log: str | None, aging: Aging) -> Verdict:
    if sighting.fault is not None:
        return Verdict.FAILED
    if sighting.quotas is None:
        return Verdict.ABSENT
    if sighting.quotas.place.log_id != log:
        return Verdict.OTHER_LOG
    age = aging.age(sighting.quotas.place)
    if age is None:
        return Verdict.CLOCK_SKEW
    return Verdict.NOT_NEEDED if aging.fresh(age) else Verdict.TOO_OLD


def _rungs(sightings: Sequence[Sighting]) -> list[Sighting]:
    return sorted(sightings, key=lambda sighting: RUNGS.index(sighting.source))


def _tried(
    sightings: Sequence[Sighting], verdicts: Mapping[Source, Verdict]
) -> tuple[tuple[Source, str], ...]:
    return tuple(
        (s.source, s.fault if s.fault is not None else verdicts[s.source].value)
        for s in _rungs(sightings)
    )
