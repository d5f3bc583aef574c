"""What jobs wait for and for how long, and how long they had waited when they started or ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.report.series import percentiles
from walras_contracts.work import JobState

GANG_ABOVE_MACC = 1000
"""A job that needs more than one accelerator waits for all of them at once."""


@dataclass(slots=True)
class WaitBook:
    """Takes the states of jobs one by one, each with the one before."""

    starts_ms: list[int] = field(default_factory=list)
    """What each start, restarts included, had waited since the run before."""
    gangs_ms: list[int] = field(default_factory=list)
    """What gangs had waited when they started for the first time."""
    finished_ms: list[int] = field(default_factory=list)
    """All that finished jobs waited."""
    by_reason: dict[str, list[int]] = field(default_factory=dict)
    """Job·ms and macc·ms."""
    _at_start_ms: dict[str, int] = field(default_factory=dict)

    def started(self, key: str, waited_ms: int, size_macc: int) -> None:
        """Take that a pending job started, or one that was not heard of before."""
        before_ms = self._at_start_ms.get(key)
        self.starts_ms.append(waited_ms - (before_ms or 0))
        self._at_start_ms[key] = waited_ms
        if before_ms is None and size_macc > GANG_ABOVE_MACC:
            self.gangs_ms.append(waited_ms)

    def ended(self, state: str, waited_ms: int) -> None:
        """Take that a job ended."""
        if state == JobState.FINISHED:
            self.finished_ms.append(waited_ms)

    def waited(self, reason: str, length_ms: int, size_macc: int) -> None:
        """Take that a job was pending for a reason for so long."""
        amounts = self.by_reason.setdefault(reason, [0, 0])
        amounts[0] += max(0, length_ms)
        amounts[1] += max(0, length_ms) * size_macc

    def report(self) -> Mapping[str, Any]:
        """Return percentiles in ms, and time by reason."""
        return {
            "starts": len(self.starts_ms),
            "wait_per_start_ms": percentiles(self.starts_ms),
            "wait_of_gangs_ms": {"jobs": len(self.gangs_ms), **percentiles(self.gangs_ms)},
            "wait_of_finished_ms": {"jobs": len(self.finished_ms), **percentiles(self.finished_ms)},
            "by_reason": {
                reason: {"job_ms": amounts[0], "macc_ms": amounts[1]}
                for reason, amounts in sorted(self.by_reason.items())
            },
        }
