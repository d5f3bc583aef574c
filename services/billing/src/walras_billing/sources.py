"""Usage by source: each number counts once, no instant twice, holes are kept in mind.

A source is a part of a lease in one attempt; it numbers its records densely from 0. A number is
known again as long as its line is remembered. What is forgotten ended before all that is taken
later begins, so that no instant is charged twice whatever was forgotten.

The attempts of a lease on a node are sources of their own, but hold the same devices: an instant
that two of them claim belongs to the lower attempt, as it does to the lower number of one.
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
    """Spans that lines of higher numbers or attempts, this one or others, are not charged for."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Numbers of a source that will never come; ``before`` is the record before them, if any."""

    numbers: Numbers
    after: UsageLine
    before: UsageLine | None


@dataclass(slots=True)
class Source:
    """The remembered lines of a source by number, and the numbers that were passed over."""

    lines: list[UsageLine] = field(default_factory=list)
    end_ms: int = 0
    """Latest end of its lines."""
    missing: list[Numbers] = field(default_factory=list)
    rivals: tuple["Source", ...] = ()
    """The other attempts of its lease on its node."""

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

    def place(self, line: UsageLine) -> int:
        """Return where among the lines a line is or belongs, by its number."""
        if line.seq >= self.next_seq:
            return len(self.lines)
        return bisect_left(self.lines, line.seq, key=_SEQ)

    def is_before_gap(self, at: int) -> bool:
        """Whether numbers are missing behind a line that is not the last one."""
        return at + 1 < len(self.lines) and self.lines[at + 1].seq > self.lines[at].seq + 1

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
        self._by_lease: dict[str, tuple[str, ...]] = {}

    def jumps(self, line: UsageLine) -> bool:
        """Whether a number that is new contradicts time: all before a lower one, or after a higher.

        It is compared with its neighbours by number, as far as they are remembered.
        """
        source = self.sources.get(line.terms.source)
        if source is None:
            return False
        at, lines = source.place(line), source.lines
        if at < len(lines) and lines[at].seq == line.seq:
            return False
        if at > 0 and line.end_ms <= lines[at - 1].start_ms:
            return True
        return at < len(lines) and line.start_ms >= lines[at].end_ms

    def extend(self, line: UsageLine) -> bool:
        """Take a record that simply follows: the next number, later than all others, same terms.

        :meth:`jumps` and :meth:`take` would find nothing about it. False: it was not taken.
        """
        terms = line.terms
        source = self.sources.get(terms.source)
        if source is None or source.rivals or not source.lines:
            return False
        last = source.lines[-1]
        if terms is not last.terms or line.seq != last.seq + 1 or line.start_ms < source.end_ms:
            return False
        source.lines.append(line)
        source.end_ms = line.end_ms
        return True

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
            What became of it. An overlap takes its span from the line of the higher attempt or
            number: from what it will be charged, or, where it was rated already, as a cut.
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
        self._put(source, line)
        for rival in sorted(source.rivals, key=_attempt):
            if line.start_ms < rival.end_ms:
                taken.overlaps += _overlaps(rival, line, barrier, clock_ms)
        return taken

    def last_of(self, name: str) -> UsageLine | None:
        """Return the line with the highest number of a source."""
        source = self.sources.get(name)
        return source.lines[-1] if source is not None and source.lines else None

    def load(self, line: UsageLine) -> None:
        """Take back a line that was taken before."""
        self._put(self.sources.get(line.terms.source) or Source(), line)

    def of_lease(self, lease: str) -> Iterator[UsageLine]:
        """Yield the remembered lines of a lease: of all its parts and attempts."""
        for name in self._by_lease.get(lease, ()):
            yield from self.sources[name].lines

    def has_lease(self, lease: str) -> bool:
        """Whether a line of a lease is remembered."""
        return lease in self._by_lease

    def _put(self, source: Source, line: UsageLine) -> None:
        if source.lines:
            _share_terms(source, line)
        else:
            self._add(source, line)
        source.put(line)

    def _add(self, source: Source, line: UsageLine) -> None:
        """Take a source whose first line this is."""
        terms = line.terms
        names = self._by_lease.get(terms.lease, ())
        for name in names:
            rival = self.sources[name]
            other = rival.lines[0].terms
            if other.node == terms.node and other.attempt != terms.attempt:
                source.rivals = (*source.rivals, rival)
                rival.rivals = (*rival.rivals, source)
        self._by_lease[terms.lease] = (*names, terms.source)
        self.sources[terms.source] = source

    def _remove(self, name: str, last: UsageLine) -> None:
        """Forget a source without lines; ``last`` was one of it."""
        source, lease = self.sources.pop(name), last.terms.lease
        for rival in source.rivals:
            rival.rivals = tuple(other for other in rival.rivals if other is not source)
        names = tuple(other for other in self._by_lease[lease] if other != name)
        if names:
            self._by_lease[lease] = names
        else:
            del self._by_lease[lease]

    def lines(self) -> Iterator[UsageLine]:
        """Yield all remembered lines."""
        for source in self.sources.values():
            yield from source.lines

    def forget(
        self, name: str, before_ms: int, clock_ms: int
    ) -> tuple[list[UsageLine], list[Lost]]:
        """Forget the lines of a source, in order, up to the first that ends later or waits.

        One waits for its price, or to be rated after ``clock_ms``: by a longer grace than is set
        now. The record before a gap stays until it is known what became of the gap. A line that
        ended at or before ``before_ms`` is not needed to tell overlaps: whoever calls this takes
        nothing any more that begins before it.

        Returns
        -------
        tuple
            The lines that went, and the missing numbers that will never come, since the record
            behind them is as old.
        """
        source = self.sources[name]
        count = 0
        while count < len(source.lines):
            line = source.lines[count]
            if line.end_ms > before_ms or line.pending or line.until_ms > clock_ms:
                break
            count += 1
        if not count:
            return [], []
        lost = self._lost(source, name, source.lines[count - 1].seq)
        if source.is_before_gap(count - 1):
            count -= 1
        gone = source.lines[:count]
        del source.lines[:count]
        if not source.lines:
            self._remove(name, gone[-1])
        return gone, lost

    def _lost(self, source: Source, name: str, until_seq: int) -> list[Lost]:
        """Take the missing numbers below a number from a source."""
        numbers = [numbers for numbers in source.missing if numbers[1] <= until_seq]
        if not numbers:
            return []
        source.missing = source.missing[len(numbers) :]
        self.changed[name] = None
        found = []
        for first, end in numbers:
            after = source.find(end)
            assert after is not None
            found.append(Lost((first, end), after, source.find(first - 1)))
        return found


def _overlaps(
    source: Source, line: UsageLine, barrier: int, clock_ms: int
) -> list[tuple[UsageLine, Span]]:
    """Take what overlaps from the lines of higher attempts or numbers; return who lost what."""
    lost: list[tuple[UsageLine, Span]] = []
    for other in source.lines:
        start_ms, end_ms = max(line.start_ms, other.start_ms), min(line.end_ms, other.end_ms)
        if start_ms >= end_ms:
            continue
        loser = line if _rank(other) < _rank(line) else other
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


def _rank(line: UsageLine) -> tuple[int, int]:
    return line.terms.attempt, line.seq


def _attempt(source: Source) -> int:
    return source.lines[0].terms.attempt


def _share_terms(source: Source, line: UsageLine) -> None:
    """Let the line share the terms of a neighbour where they are equal: most of its memory."""
    terms = source.lines[-1].terms
    if line.terms is not terms and line.terms == terms:
        line.terms = terms
