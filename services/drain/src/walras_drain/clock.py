"""Market time from barrier to barrier: deadlines that are barriers, and holes.

Timers add at most two intervals per barrier (step protocol §2): what is beyond is a hole, in which
nobody could decide anything, and every timer that runs is set later by it.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from walras_runtime.records import StateChange

CLOCK_KEY: Final = "~clock"
"""Record of the own state: no id begins with a tilde."""
NEVER_MS: Final = 2**63
"""Later than every market time."""
PROGRESS_MS: Final = 10_000
"""An open session is published at least so often (R15)."""
SILENT_MS: Final = 30_000
"""An agent that said nothing for so long, three times the progress, is silent."""


@dataclass(slots=True)
class BarrierClock:
    """When the last barrier was; ``interval_ms`` is the usual distance of two."""

    interval_ms: int
    last_ms: int | None = None
    now_ms: int = field(default=0)

    def begin(self, now_ms: int) -> int:
        """Begin a step; return by how much timers are set later, in ms."""
        hole_ms = 0
        if self.last_ms is not None:
            hole_ms = max(0, now_ms - self.last_ms - 2 * self.interval_ms)
        self.now_ms = now_ms
        return hole_ms

    def end(self) -> StateChange:
        """End a step; return what is to be remembered."""
        self.last_ms = self.now_ms
        return StateChange(CLOCK_KEY, json.dumps(self.now_ms).encode())

    def load(self, value: bytes) -> None:
        """Take back the record of the own state."""
        self.last_ms = json.loads(value)

    def is_progress_due(self, since_ms: int) -> bool:
        """Whether a multiple of :data:`PROGRESS_MS` after an instant lies in this step."""
        before_ms = self.now_ms if self.last_ms is None else self.last_ms
        return (self.now_ms - since_ms) // PROGRESS_MS > (before_ms - since_ms) // PROGRESS_MS

    def silent_ms(self) -> int:
        """Return after how long an agent counts as silent: it can be heard at barriers only."""
        return max(SILENT_MS, 2 * self.interval_ms)


def rounded_up_ms(duration_ms: int, interval_ms: int) -> int:
    """Return a duration rounded up to whole intervals: what ends between barriers ends at one."""
    return -(-duration_ms // interval_ms) * interval_ms
