"""What one source must have on the log: which of its records count, and their lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from walras.audit.audit_rules import AuditRules
from walras.audit.expected_charges import Forgets, Rated, Rating, Taken
from walras.audit.expected_credits import Crediting
from walras.audit.expected_gaps import NEVER, GapReport, expected_gaps
from walras.audit.failed_drains import FailedDrains, GivenBack
from walras.audit.remembering import SourceMemory
from walras.audit.rows import Line, Span, Use, joined, without
from walras.audit.source_numbers import Counted, Never, count_numbers
from walras.audit.steps import Clock

ROUNDS: Final = 20
"""So often verdicts are looked at again that depend on what was forgotten."""
NO_RECORD: Final = -1


class LostPart(NamedTuple):
    """A part of a record that is not charged.

    ``offset``: of the record that showed it, in the step of which it is told; `NO_RECORD`: time
    did.
    """

    span: Span
    offset: int
    step: int


@dataclass(slots=True)
class RatedUse:
    """A record with what it must have; ``rated`` None: it is not due yet.

    ``lost``: what lower numbers and attempts claim of it, each instant by who showed it first.
    """

    use: Use
    lost: list[LostPart]
    rated: Rated | None
    credits: list[Line] = field(default_factory=list)

    @property
    def taken(self) -> list[Span]:
        """What others claim of it."""
        return joined([part.span for part in self.lost])

    @property
    def given_up(self) -> list[LostPart]:
        """What waited too long for a price."""
        if self.rated is None:
            return []
        return [LostPart(span, NO_RECORD, step) for step, span in self.rated.given_up]


@dataclass(slots=True)
class SourceOutcome:
    """What a source must have."""

    counted: Counted
    rated: list[RatedUse]
    gaps: list[GapReport]


class SourceAudit:
    """Rates sources; those of a lease on a node are given by attempt.

    Parameters
    ----------
    rating
        Charges records.
    drains
        The failed drains of the partition.
    clock
        When the steps were.
    rules
        What billing was set to.
    """

    def __init__(
        self, rating: Rating, drains: FailedDrains, clock: Clock, rules: AuditRules
    ) -> None:
        self._rating = rating
        self._crediting = Crediting(rating)
        self._drains = drains
        self._clock = clock
        self._rules = rules

    def outcome(self, given: Sequence[Use], lower: Sequence[Use], never: Never) -> SourceOutcome:
        """Return what a source must have.

        Parameters
        ----------
        given
            Its records that may count.
        lower
            What counts of the lower attempts on the same devices.
        never
            Numbers whose gap was given up.
        """
        memory = SourceMemory((), self._clock, self._rules)
        counted = count_numbers(given, never, self._may_be_gone, memory.is_gone)
        memory, rated = self._rated(counted, lower)
        for _ in range(0 if counted.is_sure else ROUNDS):
            # What was forgotten is known better now, and may decide otherwise.
            before = counted
            counted = count_numbers(given, never, self._may_be_gone, memory.is_gone)
            if counted.uses == before.uses:
                break
            memory, rated = self._rated(counted, lower)
        reports = expected_gaps(counted.ordered(), memory.settled) if counted.uses else []
        by_number = {found.use.seq: found for found in rated}
        for report in reports:
            found = None if report.before is None else by_number.get(report.before.seq)
            if report.ended == NEVER and found is not None and found.rated is not None:
                claims = self._claims(found.use)
                found.credits += self._crediting.for_gap(
                    found.use, found.rated, claims, report.step
                )
        return SourceOutcome(counted, rated, reports)

    def _may_be_gone(self, use: Use, before: int) -> bool:
        step = self._clock.step_at(use.end_ms + self._rules.look_back_ms)
        return step is not None and step < before

    def _rated(self, counted: Counted, lower: Sequence[Use]) -> tuple[SourceMemory, list[RatedUse]]:
        uses = counted.ordered()
        memory = SourceMemory(uses, self._clock, self._rules)
        return memory, [*self._rate(uses, lower, memory)]

    def _rate(
        self, uses: Sequence[Use], attempts: Sequence[Use], memory: SourceMemory
    ) -> Iterator[RatedUse]:
        lower = [*attempts]
        latest_ms = max((use.end_ms for use in lower), default=-1)
        for use in uses:
            position = self._clock.step_at(use.end_ms + self._rules.price_grace_ms)
            rivals: list[Use] = []
            if use.start_ms < latest_ms:
                rivals = [
                    other
                    for other in lower
                    if other.start_ms < use.end_ms and use.start_ms < other.end_ms
                ]
            lower.append(use)
            latest_ms = max(latest_ms, use.end_ms)
            found = RatedUse(use, _lost(use, rivals), None)
            if position is not None:
                taken = [_taken(use, other, position) for other in rivals]
                rated = self._rating.rate(use, taken, position, _forgets(memory, use))
                found.rated = rated
                claims = [
                    claim
                    for claim in self._claims(use)
                    if not memory.is_forgotten(use, rated.timeline, claim.step)
                ]
                found.credits += self._crediting.for_drains(use, rated, claims)
            memory.close(use, None if found.rated is None else found.rated.timeline)
            yield found

    def _claims(self, use: Use) -> Sequence[GivenBack]:
        return self._drains.of_lease.get((use.team, use.lease), ())


def _lost(use: Use, rivals: Sequence[Use]) -> list[LostPart]:
    """Return what lower numbers and attempts take from a record; the later of both shows it."""
    found: list[LostPart] = []
    gone: list[Span] = []
    for other in sorted(rivals, key=lambda other: max(_came(other), _came(use))):
        later = max(use, other, key=_came)
        parts = without([_common(use, other)], gone)
        found += [LostPart(part, later.offset, later.arrival) for part in parts]
        gone.append(_common(use, other))
    return found


def _common(use: Use, other: Use) -> Span:
    return max(use.start_ms, other.start_ms), min(use.end_ms, other.end_ms)


def _came(use: Use) -> tuple[int, int, int, int]:
    """Sort the records of a lease on a node as they are looked at."""
    return use.arrival, use.attempt, use.seq, use.offset


def _taken(use: Use, other: Use, position: int) -> Taken:
    """Return what a record of lower number or attempt takes from one, and when it is corrected.

    It is corrected where it had been rated before the other came, or where both came in one step,
    too late, and this one was looked at first.
    """
    was_rated = position < other.arrival and _came(use) < _came(other)
    return Taken(other.arrival if was_rated else None, _common(use, other))


def _forgets(memory: SourceMemory, use: Use) -> Forgets:
    return lambda step, timeline: memory.is_forgotten(use, timeline, step)
