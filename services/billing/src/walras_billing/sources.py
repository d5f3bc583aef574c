"""Usage by source: each number counts once, no instant twice, holes are kept in mind.

A source is a part of a lease in one attempt; it numbers its records densely from 0. A number is
known again as long as its line is remembered; what is older is rejected as late, so that nothing
is charged twice whatever was forgotten.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from walras_billing.usage_faults import Fault, UsageFault
from walras_billing.usage_line import Cut, Span, UsageLine, subtracted

Numbers = tuple[int, int]
"""A range [first, end) of sequence numbers."""
_SEQ = attrgetter("seq")


@dataclass(slots=True)
class Taken:
    """What became of a record: charged unless it is a repetition or has a fault."""

    is_new: bool
    fault: Fault | None = None
    fills_gap: bool = False
    overlaps: list[tuple[UsageLine, Span]] = field(default_factory=list)
    """Spans that lines of higher numbers, this one or others, are not charged for."""


@dataclass(slots=True)
class Source:
    """The remembered lines of a source by number, and the numbers that were passed over."""

    lines: list[UsageLine] = field(default_factory=list)
    end_ms: int = 0
    """Latest end of its lines."""
    missing: list[Numbers] = field(default_factory=list)

    @property
    def next_seq(self) -> int:
        """The number behind the highest one taken; 0 at first."""
        return self.lines[-1].seq + 1 if self.lines else 0

    def put(self, line: UsageLine) -> None:
        """Put a line in its place."""
        if line.seq >= self.next_seq:
            self.lines.append(line)
        else:
            self.lines.insert(bisect_left(self.lines, line.seq, key=_SEQ), line)
        self.end_ms = max(self.end_ms, line.end_ms)

    def find(self, seq: int) -> UsageLine | None:
        """Return the remembered line of a number."""
        at = bisect_left(self.lines, seq, key=_SEQ)
        return self.lines[at] if at < len(self.lines) and self.lines[at].seq == seq else None

    def fill(self, seq: int) -> bool:
        """Take a number out of the missing ones; False if it is none of them."""
        for index, (first, end) in enumerate(self.missing):
            if first <= seq < end:
                rest = [(first, seq), (seq + 1, end)]
                self.missing[index : index + 1] = [r for r in rest if r[0] < r[1]]
                return True
        return False


class UsageBook:
    """All remembered usage.

    ``changed`` names the sources whose missing numbers changed since they were written.
    """

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}
        self.changed: dict[str, None] = {}

    def take(self, line: UsageLine, barrier: int, clock_ms: int) -> Taken:
        """Take a record in the step of a barrier.

        Parameters
        ----------
        line
            The record.
        barrier
            Number of the step.
        clock_ms
            Lines whose ``until_ms`` is at or before it have been rated.

        Returns
        -------
        Taken
            What became of it. An overlap takes its span from the line of the higher number: from
            what it will be charged, or, where it was rated already, as a cut.
        """
        source = self.sources.get(line.terms.source)
        if source is None:
            source = Source()
        known = source.find(line.seq) if line.seq < source.next_seq else None
        if known is not None:
            if known.says_the_same(line):
                return Taken(False)
            reason = f"number {line.seq} was taken with another body"
            return Taken(False, Fault(UsageFault.OTHER_BODY, reason))
        taken = Taken(True)
        if line.seq < source.next_seq:
            if not source.fill(line.seq):
                reason = f"number {line.seq} was taken before what is remembered"
                return Taken(False, Fault(UsageFault.OTHER_BODY, reason))
            taken.fills_gap = True
            self.changed[line.terms.source] = None
        elif line.seq > source.next_seq:
            source.missing.append((source.next_seq, line.seq))
            self.changed[line.terms.source] = None
        if line.start_ms < source.end_ms:
            taken.overlaps = _overlaps(source, line, barrier, clock_ms)
        self.sources[line.terms.source] = source
        _share_terms(source, line)
        source.put(line)
        return taken

    def load(self, line: UsageLine) -> None:
        """Take back a line that was taken before."""
        source = self.sources.setdefault(line.terms.source, Source())
        _share_terms(source, line)
        source.put(line)

    def lines(self) -> Iterator[UsageLine]:
        """Yield all remembered lines."""
        for source in self.sources.values():
            yield from source.lines

    def forget(self, name: str, before_ms: int) -> tuple[list[UsageLine], list[Numbers]]:
        """Forget the lines of a source, in order, up to the first that ends later or waits.

        Returns
        -------
        tuple
            The lines that went, and the missing numbers before them: those will never come.
        """
        source = self.sources[name]
        count = 0
        while count < len(source.lines):
            line = source.lines[count]
            if line.end_ms > before_ms or line.pending:
                break
            count += 1
        gone = source.lines[:count]
        if not gone:
            return [], []
        lost = [numbers for numbers in source.missing if numbers[1] <= gone[-1].seq]
        if lost:
            source.missing = source.missing[len(lost) :]
            self.changed[name] = None
        del source.lines[:count]
        if not source.lines:
            del self.sources[name]
        return gone, lost


def _overlaps(
    source: Source, line: UsageLine, barrier: int, clock_ms: int
) -> list[tuple[UsageLine, Span]]:
    """Take what overlaps from the lines of higher numbers; return who lost what."""
    lost: list[tuple[UsageLine, Span]] = []
    for other in source.lines:
        start_ms, end_ms = max(line.start_ms, other.start_ms), min(line.end_ms, other.end_ms)
        if start_ms >= end_ms:
            continue
        loser = line if other.seq < line.seq else other
        for gone in _charged(loser, start_ms, end_ms):
            lost.append((loser, gone))
            if loser is other and loser.until_ms <= clock_ms:
                loser.cuts = (*loser.cuts, Cut(barrier, *gone))
            else:
                loser.net = subtracted(loser.spans(), *gone)
    return lost


def _charged(line: UsageLine, start_ms: int, end_ms: int) -> list[Span]:
    """Return the parts of [start, end) that a line is charged for so far."""
    spans = line.spans()
    for cut in line.cuts:
        spans = subtracted(spans, cut.start_ms, cut.end_ms)
    return [
        (max(a, start_ms), min(b, end_ms)) for a, b in spans if max(a, start_ms) < min(b, end_ms)
    ]


def _share_terms(source: Source, line: UsageLine) -> None:
    """Let the line share the terms of a neighbour where they are equal: most of its memory."""
    if source.lines and source.lines[-1].terms == line.terms:
        line.terms = source.lines[-1].terms
