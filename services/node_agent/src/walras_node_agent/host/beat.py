"""The file by which keepers know that an agent lives."""

import os
from pathlib import Path
from typing import Final

from walras_node_agent.host.files import PRIVATE_FILE

BEAT: Final = "beat"
BEAT_MS: Final = 500
"""How often a sign of life is given."""


def last_beat_ms(path: Path) -> int | None:
    """Return the last sign of life of an agent, in ms since boot; None: there is none."""
    try:
        return int(path.read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


class Beat:
    """Gives signs of life; written in place, so that a full disk does not end what runs."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, PRIVATE_FILE)
        self._at_ms: int | None = None

    def give(self, now_ms: int) -> None:
        """Give a sign of life, if the last one is not new."""
        if self._at_ms is None or now_ms >= self._at_ms + BEAT_MS:
            os.pwrite(self._descriptor, b"%020d\n" % now_ms, 0)
            self._at_ms = now_ms

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
