"""How long billing remembers a usage record: what becomes known later changes nothing any more.

A record is *settled* in the first step a look-back behind its end in which no part of it waits for
a price and all remembered lower numbers of its source are settled too. It is forgotten then, unless
numbers are missing between it and the next one: then, when that is known to be for ever.
"""

from bisect import bisect_right
from collections.abc import Sequence

from walras.audit.audit_rules import AuditRules
from walras.audit.expected_charges import Piece
from walras.audit.rows import Use
from walras.audit.steps import Clock

Timeline = Sequence[tuple[int, Sequence[Piece]]]


class SourceMemory:
    """Follows one source, whose records are asked about by number.

    Parameters
    ----------
    uses
        All records of the source that count, by number.
    clock
        When the steps were.
    rules
        What billing was set to.
    """

    def __init__(self, uses: Sequence[Use], clock: Clock, rules: AuditRules) -> None:
        self._uses = uses
        self._numbers = [use.seq for use in uses]
        self._clock = clock
        self._rules = rules
        self._held: list[tuple[int, int]] = []
        """Arrival and step of settling of the numbers so far."""
        self._longest = -1
        self.settled: dict[int, int] = {}
        """The step in which a number is settled, of those that are."""

    def is_forgotten(self, use: Use, timeline: Timeline, before: int) -> bool:
        """Whether a record was forgotten before a step; the timeline is whole up to it."""
        step = self.settled.get(use.seq)
        if step is None:
            step = self._settled_at(use, timeline, before)
        return step is not None and step < before and not self._is_held(use, step, before)

    def is_gone(self, use: Use, before: int) -> bool:
        """Whether a record, after all were closed, was forgotten before a step."""
        step = self.settled.get(use.seq)
        return step is not None and step < before and not self._is_held(use, step, before)

    def _is_held(self, use: Use, step: int, before: int) -> bool:
        """Whether a record that is settled is kept up to a step for the gap behind it."""
        following = self._uses[bisect_right(self._numbers, use.seq) :]
        present = [other for other in following if other.arrival <= step]
        if not present or present[0].seq == use.seq + 1:
            return False
        held = self.settled.get(present[0].seq)
        if held is None:
            held = self._clock.step_at(present[0].end_ms + self._rules.look_back_ms)
        filled = next((other.arrival for other in following if other.seq == use.seq + 1), before)
        return min(before if held is None else held, filled) >= before

    def _settled_at(self, use: Use, timeline: Timeline, before: int) -> int | None:
        """Return the step in which a record is settled, if that is before a step."""
        step = self._clock.step_at(use.end_ms + self._rules.look_back_ms)
        if step is None:
            return None
        step = max(step, timeline[0][0])
        while step < before:
            later = max(self._blocked_until(step), _priced_from(timeline, step, before))
            if later == step:
                return step
            step = later
        return None

    def close(self, use: Use, timeline: Timeline | None) -> None:
        """Go on to the next number.

        Parameters
        ----------
        use
            The record.
        timeline
            Its pieces after each step that changed them; None: it is not rated yet.
        """
        end = self._clock.last + 1
        found = None if timeline is None else self._settled_at(use, timeline, end)
        if found is not None:
            self.settled[use.seq] = found
        step = end if found is None else found
        self._held.append((use.arrival, step))
        self._longest = max(self._longest, step)

    def _blocked_until(self, step: int) -> int:
        """Return the step from which no lower number is in the way, as those stand at a step."""
        if self._longest <= step:
            return step
        return max((gone for arrival, gone in self._held if arrival <= step < gone), default=step)


def _priced_from(timeline: Timeline, step: int, before: int) -> int:
    """Return the first step from one on after which no part waits for a price."""
    state: Sequence[Piece] = ()
    for at, pieces in timeline:
        if at > step and all(piece.price_micro is not None for piece in state):
            return step
        state, step = pieces, max(at, step)
    return step if all(piece.price_micro is not None for piece in state) else before
