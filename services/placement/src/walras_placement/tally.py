"""What happened since the figures were last published, by market."""

import json
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.placing import CYCLES_MAX

TALLY: Final = "~tally"
"""Record of the own state: no id begins with a tilde."""


@dataclass(slots=True)
class Counted:
    """What happened in one market."""

    started_jobs: int = 0
    started_wait_ms: int = 0
    vacated_jobs: int = 0
    kept_jobs: int = 0
    deadline_misses: int = 0
    cycles_detected: int = 0
    cycles: list[tuple[str, str]] = field(default_factory=list)
    """Some of them: the job that has to wait, the one that took over."""

    def detect(self, evicted: str, by: str) -> None:
        """Count a preemption cycle."""
        self.cycles_detected += 1
        if len(self.cycles) < CYCLES_MAX:
            self.cycles.append((evicted, by))


class Tally:
    """Counts by market since the last figures; kept over restarts."""

    def __init__(self) -> None:
        self._of: dict[str, Counted] = {}
        self._written: bytes | None = None

    def of(self, market: str) -> Counted:
        """Return the counts of a market, to be added to."""
        return self._of.setdefault(market, Counted())

    def clear(self) -> None:
        """Begin anew."""
        self._of.clear()

    def dump(self) -> bytes | None:
        """Return the value of its record; None where nothing is counted."""
        document = {
            market: [
                counted.started_jobs,
                counted.started_wait_ms,
                counted.vacated_jobs,
                counted.kept_jobs,
                counted.deadline_misses,
                counted.cycles_detected,
                counted.cycles,
            ]
            for market, counted in sorted(self._of.items())
            if counted != Counted()
        }
        return json.dumps(document, separators=(",", ":")).encode() if document else None

    def take_change(self) -> tuple[bool, bytes | None]:
        """Return whether its record is to be written, and its value."""
        value = self.dump()
        changed = value != self._written
        self._written = value
        return changed, value

    @staticmethod
    def parse(value: bytes) -> "Tally":
        """Read the value of its record."""
        tally = Tally()
        for market, fields in json.loads(value).items():
            started, wait_ms, vacated, kept, misses, detected, cycles = fields
            named = [(evicted, by) for evicted, by in cycles]
            tally._of[market] = Counted(started, wait_ms, vacated, kept, misses, detected, named)
        tally._written = value
        return tally
