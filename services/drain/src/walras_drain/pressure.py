"""Pressure: a market whose devices are nearly all held.

Opportunistic work that can be drained is asked to leave, as much of it as brings the market below
the threshold. Other drainable jobs are advised, once for as long as the pressure lasts; an advisory
changes nothing, and expires (R18).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras_drain.occupancy import Use

PRESSED: Final = "pressed/"
ADVISED: Final = "advised/"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An opportunistic lease that could leave; its size is what it holds of what counts."""

    lease: str
    size_macc: int
    score_ppm: int
    granted_ms: int


def chosen(
    use: Use, leaving_macc: int, candidates: Iterable[Candidate], threshold_ppm: int
) -> list[str]:
    """Return the leases to ask, in order: the best scores first, of those the youngest.

    Parameters
    ----------
    use
        Of the market.
    leaving_macc
        What is held by leases that are leaving already.
    candidates
        Who could be asked.
    threshold_ppm
        The market is pressed from this use on.
    """
    asked: list[str] = []
    for candidate in sorted(candidates, key=_order):
        if not use.reaches(threshold_ppm, less_macc=leaving_macc):
            break
        asked.append(candidate.lease)
        leaving_macc += candidate.size_macc
    return asked


@dataclass(frozen=True, slots=True)
class Advice:
    """An advisory that a lease was given."""

    issued_ms: int
    expires_ms: int

    def dump(self) -> bytes:
        """Return the record of the own state."""
        return json.dumps([self.issued_ms, self.expires_ms], separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Advice":
        """Read the record of the own state."""
        return Advice(*json.loads(value))


def is_to_be_advised(last: Advice | None, pressed_since_ms: int, now_ms: int) -> bool:
    """Whether a lease is given an advisory: one for each pressure, and one at a time."""
    return last is None or (last.issued_ms < pressed_since_ms and last.expires_ms <= now_ms)


def _order(candidate: Candidate) -> tuple[int, int, str]:
    return -candidate.score_ppm, -candidate.granted_ms, candidate.lease
