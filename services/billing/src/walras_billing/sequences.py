"""Which sequence numbers of a usage source were taken: each counts once, in whatever order."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Sequence:
    """The numbers taken of one source: all below ``next_seq`` except ``missing``."""

    next_seq: int = 0
    last_end_ms: int = 0
    """Latest end of its intervals, market time."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Ranges [first, end) of numbers that were passed over."""

    def take(self, seq: int, end_ms: int) -> bool:
        """Take a number; False if it was taken before."""
        if seq >= self.next_seq:
            if seq > self.next_seq:
                self.missing.append((self.next_seq, seq))
            self.next_seq = seq + 1
        elif not self._fill(seq):
            return False
        self.last_end_ms = max(self.last_end_ms, end_ms)
        return True

    def _fill(self, seq: int) -> bool:
        for index, (first, end) in enumerate(self.missing):
            if first <= seq < end:
                rest = [(first, seq), (seq + 1, end)]
                self.missing[index : index + 1] = [r for r in rest if r[0] < r[1]]
                return True
        return False

    def fields(self) -> list[Any]:
        """Return it for the state topic."""
        return [self.next_seq, self.last_end_ms, *self.missing]

    @staticmethod
    def parse(fields: list[Any]) -> "Sequence":
        """Read it from the state topic."""
        next_seq, last_end_ms, *missing = fields
        return Sequence(next_seq, last_end_ms, [(first, end) for first, end in missing])
