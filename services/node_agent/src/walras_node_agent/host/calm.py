"""Parts of which it is known that they run: whether that can have changed is told by one stat.

All that becomes of a part shows as a file that is put into its directory, which changes the time
of the directory; only the end of its keeper does not, which is looked for each time.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walras_node_agent.host.files import read_document
from walras_node_agent.host.keeper import KEEPER
from walras_node_agent.host.machine import is_alive

SETTLED_NS: Final = 2_000_000_000
"""A directory that changed later may change again without another time: file systems count coarsely
(in ticks of the kernel, or in seconds)."""
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Seen:
    changed_ns: int
    pid: int
    start: int
    """Of the keeper; with the pid it names the process."""


class CalmParts:
    """Remembers which parts run, until something may have changed.

    Parameters
    ----------
    wall
        Reads the wall clock, by which file systems count, in ms.
    """

    def __init__(self, wall: Callable[[], int]) -> None:
        self._wall = wall
        self._seen: dict[str, _Seen] = {}

    def stamp_ns(self, directory: str) -> int | None:
        """Return the time of a directory that has not changed for a while; None: it may have.

        Take it before what is in the directory is read: what changes after it gets another time.
        """
        now_ns = self._wall() * _NS_PER_MS
        changed_ns = _changed_ns(directory)
        if changed_ns is None or changed_ns > now_ns - SETTLED_NS:
            return None
        return changed_ns

    def note(self, lease: str, directory: str, stamp_ns: int | None, *, runs: bool) -> None:
        """Note what reading the directory said, whose stamp was taken before."""
        self.forget(lease)
        if runs and stamp_ns is not None:
            keeper = read_document(Path(directory, KEEPER))
            if keeper is not None:
                self._seen[lease] = _Seen(stamp_ns, int(keeper["pid"]), int(keeper["start"]))

    def runs(self, lease: str, directory: str, *, keeper_lives: bool | None) -> bool:
        """Whether a part is known to run, still.

        ``keeper_lives``: None where the caller does not know.
        """
        seen = self._seen.get(lease)
        if seen is None or keeper_lives is False:
            return False
        if _changed_ns(directory) != seen.changed_ns:
            return False
        return keeper_lives or is_alive(seen.pid, seen.start)

    def forget(self, lease: str) -> None:
        """Forget a part."""
        self._seen.pop(lease, None)


def _changed_ns(directory: str) -> int | None:
    try:
        return os.stat(directory).st_mtime_ns  # noqa: PTH116 - of every part in every turn
    except OSError:
        return None
