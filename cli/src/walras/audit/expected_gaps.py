"""What must be reported of numbers that a source passed over: that they came, or never will."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from walras.audit.rows import Use
from walras.audit.source_numbers import Numbers

FILLED: Final = "filled"
NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class GapReport:
    """A report; of numbers that never come also the record before them, where there is one.

    ``team`` is that of the record that came, or of the one behind the numbers.
    """

    numbers: Numbers
    ended: str
    step: int
    team: str
    before: Use | None = None


def expected_gaps(uses: Sequence[Use], settled: dict[int, int]) -> list[GapReport]:
    """Return the reports that a source must have.

    Parameters
    ----------
    uses
        Its records that count, by number.
    settled
        The step in which each number is settled, of those that are.
    """
    if not _passes_over(uses):
        return []
    by_number = {use.seq: use for use in uses}
    events = [(use.arrival, 0, use.seq) for use in uses]
    events += [(step, 1, number) for number, step in settled.items()]
    found: list[GapReport] = []
    missing: list[Numbers] = []
    highest: int | None = None
    for step, is_settled, number in sorted(events):
        if is_settled:
            lost = [numbers for numbers in missing if numbers[1] <= number]
            missing = missing[len(lost) :]
            found += [
                GapReport(
                    *(numbers, NEVER, step, by_number[numbers[1]].team),
                    by_number.get(numbers[0] - 1),
                )
                for numbers in lost
            ]
            continue
        if highest is not None and settled.get(highest, step) < step:
            # The source was forgotten whole: it begins anew.
            missing, highest = [], None
        expected = 0 if highest is None else highest + 1
        if number < expected:
            team = by_number[number].team
            found.append(GapReport((number, number + 1), FILLED, step, team))
            missing = [
                part
                for first, end in missing
                for part in (
                    ((first, number), (number + 1, end))
                    if first <= number < end
                    else ((first, end),)
                )
                if part[0] < part[1]
            ]
            continue
        if number > expected:
            missing.append((expected, number))
        highest = number
    return found


def _passes_over(uses: Sequence[Use]) -> bool:
    """Whether a number is left out, or came after a higher one; most sources do neither."""
    arrivals = [use.arrival for use in uses]
    return uses[-1].seq != len(uses) - 1 or arrivals != sorted(arrivals)
