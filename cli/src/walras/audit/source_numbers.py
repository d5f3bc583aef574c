"""What the numbers of a source say of each other: which of its records count.

In a step records are judged by number, then by their place on the log. The first of a number
counts; the same body again is a repetition, another body a fault. A new number must not contradict
the times of its neighbours, as far as those are remembered, nor come when its gap was given up. A
number that was taken is never taken again, also where billing has forgotten its source: then the
audit differs from billing, and means to.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from walras.audit.rows import Use

Numbers = tuple[int, int]
"""A range of sequence numbers, the second one excluded."""
Never = Sequence[tuple[Numbers, int]]
"""Numbers that were reported as never coming, and in which step."""
MayBeGone = Callable[[Use, int], bool]
"""Whether a record was, or may have been, forgotten before a step."""
OTHER_BODY: Final = "other_body"
CLOCK_JUMP: Final = "clock_jump"


@dataclass(slots=True)
class Counted:
    """What of a source counts, by number, and what does not.

    ``is_sure``: no verdict depended on whether a record was forgotten.
    """

    uses: dict[int, Use] = field(default_factory=dict)
    refused: list[tuple[Use, str]] = field(default_factory=list)
    repeated: list[Use] = field(default_factory=list)
    is_sure: bool = True

    def ordered(self) -> list[Use]:
        """Return what counts, by number."""
        return [self.uses[number] for number in sorted(self.uses)]


def count_numbers(
    given: Sequence[Use], never: Never, may_be_gone: MayBeGone, is_gone: MayBeGone
) -> Counted:
    """Judge the records of a source.

    Parameters
    ----------
    given
        Those without a fault of their own.
    never
        Numbers whose gap was given up.
    may_be_gone
        Whether a record is so old that it may be forgotten.
    is_gone
        Whether it was, as far as is known.
    """
    counted = Counted()
    numbers: list[int] = []
    for use in sorted(given, key=_order):
        known = counted.uses.get(use.seq)
        if known is not None and known.body == use.body:
            counted.repeated.append(use)
        elif known is not None:
            counted.refused.append((use, OTHER_BODY))
        elif _jumps(use, numbers, counted, may_be_gone, is_gone):
            counted.refused.append((use, CLOCK_JUMP))
        elif _is_given_up(use, never) and not _begins_anew(
            use, numbers, counted, may_be_gone, is_gone
        ):
            counted.refused.append((use, OTHER_BODY))
        else:
            counted.uses[use.seq] = use
            insort(numbers, use.seq)
    return counted


def _is_given_up(use: Use, never: Never) -> bool:
    return any(low <= use.seq < high and step < use.arrival for (low, high), step in never)


def _begins_anew(
    use: Use,
    numbers: Sequence[int],
    counted: Counted,
    may_be_gone: MayBeGone,
    is_gone: MayBeGone,
) -> bool:
    """Whether the source was forgotten whole: then gaps that were given up are, too."""
    for number in numbers:
        other = counted.uses[number]
        if not may_be_gone(other, use.arrival):
            return False
        counted.is_sure = False
        if not is_gone(other, use.arrival):
            return False
    return True


def _jumps(
    use: Use,
    numbers: Sequence[int],
    counted: Counted,
    may_be_gone: MayBeGone,
    is_gone: MayBeGone,
) -> bool:
    """Whether a record lies before all of its lower neighbour, or behind its higher one."""
    at = bisect_left(numbers, use.seq)
    if at > 0 and use.end_ms <= counted.uses[numbers[at - 1]].start_ms:
        return True
    for number in numbers[at:]:
        higher = counted.uses[number]
        if may_be_gone(higher, use.arrival):
            counted.is_sure = False
            if is_gone(higher, use.arrival):
                continue
        return use.start_ms >= higher.end_ms
    return False


def _order(use: Use) -> tuple[int, int, int]:
    return use.arrival, use.seq, use.offset
