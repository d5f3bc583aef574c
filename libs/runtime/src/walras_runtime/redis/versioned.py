"""A value that only a newer writer may replace: the words shared by its stores.

The log is the authority; a store holds a projection of it. Writers may be several, slow or dead
without knowing it, so a write is accepted by its stamp and not by who came last (design §7).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from walras_runtime.errors import WalrasError

RESERVED_PREFIX: Final = "~"
"""Field names that begin with it belong to the store."""
STAMP_LIMIT: Final = 2**53
"""Redis compares numbers as doubles; below this they are exact."""


class StoreUnavailableError(WalrasError):
    """The store does not answer, or answers that it cannot work now."""

    code = "store_unavailable"
    retriable = True


class StoreCorruptError(WalrasError):
    """What is held under the key is not a stamped value."""

    code = "store_corrupt"


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """Where in the log a value stands; stamps are ordered field by field.

    Parameters
    ----------
    epoch
        Epoch of the writer whose barrier closed the value.
    number
        The round of decisions that the value shows.
    step
        The barrier up to which it was read; tells values of one round apart.
    """

    epoch: int
    number: int
    step: int = 0

    def __post_init__(self) -> None:
        for value in (self.epoch, self.number, self.step):
            if not -1 <= value < STAMP_LIMIT:
                raise ValueError(f"{self} is outside -1 .. 2**53 - 1")


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stamped value: bytes under field names."""

    stamp: Stamp
    fields: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("a stamped value needs a field")
        for name in self.fields:
            if not name or name.startswith(RESERVED_PREFIX):
                raise ValueError(f"field name {name!r} is empty or reserved")


class Outcome(StrEnum):
    """How a write ended; every one of them is an ordinary answer."""

    WRITTEN = "written"
    REPEATED = "repeated"
    """The same value with the same stamp was there already."""
    STALE = "stale_writer"
    """A newer stamp is there: the writer is behind, or not the owner any more."""
    CONFLICT = "conflict"
    """Another value with the same stamp is there; it stays."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Outcome of a write and the stamp that the store holds after it."""

    outcome: Outcome
    held: Stamp


class Presence(StrEnum):
    """What a store holds, compared with what its writer knows to have written."""

    CURRENT = "current"
    EMPTY = "empty"
    """Wiped, or never written."""
    BEHIND = "behind"
    """Older: put back from a copy."""
    AHEAD = "ahead"
    """Newer: another writer is at work."""


def presence_of(held: Stamp | None, written: Stamp) -> Presence:
    """Compare the stamp that a store holds with the one that was written last."""
    if held is None:
        return Presence.EMPTY
    if held < written:
        return Presence.BEHIND
    return Presence.CURRENT if held == written else Presence.AHEAD


class SnapshotStore(Protocol):
    """One stamped value of one log."""

    async def write(self, value: Versioned) -> WriteResult:
        """Put the value iff its stamp is newer than the one held."""

    async def read(self) -> Versioned | None:
        """Return the value held; None when there is none."""

    async def presence(self, written: Stamp) -> Presence:
        """Tell whether what was written with stamp ``written`` is still there."""
