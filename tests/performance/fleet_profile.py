"""The clearing service under a sampling profiler, switched by a signal: where its cycles go.

SIGUSR1 begins, the next one ends and writes the file that the environment names. Every few
milliseconds of CPU time the stack of the step loop's thread is noted, so that what the service does
is hardly slower and its shares are those of a run without a profiler; time inside a compiled
function counts for the Python function that called it. One line a stack, outermost first,
separated by semicolons, and how often it was seen: what tools that draw flame graphs read.
"""

import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

from walras_clearing_service import __main__ as service

VARIABLE = "FLEET_PROFILE"
"""Not of the settings' own prefix, which would refuse it."""
EVERY_S = 0.004


class Sampler:
    """Counts stacks while it is switched on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stacks: Counter[tuple[str, ...]] = Counter()
        self._running = False

    def toggle(self, number: int, frame: FrameType | None) -> None:
        """Begin, or end and write what was seen; a signal's handler."""
        del number, frame
        self._running = not self._running
        interval_s = EVERY_S if self._running else 0.0
        signal.setitimer(signal.ITIMER_PROF, interval_s, interval_s)
        if not self._running:
            lines = (f"{';'.join(stack)} {seen}\n" for stack, seen in self._stacks.most_common())
            self._file.write_text("".join(lines), "utf-8")
            self._stacks.clear()

    def sample(self, number: int, frame: FrameType | None) -> None:
        """Note a stack; a signal's handler."""
        del number
        stack = []
        while frame is not None:
            stack.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        self._stacks[tuple(reversed(stack))] += 1


def main() -> None:
    """Run the service until it is stopped."""
    sampler = Sampler(Path(os.environ[VARIABLE]))
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.signal(signal.SIGUSR1, sampler.toggle)
    service.main()


if __name__ == "__main__":
    main()
