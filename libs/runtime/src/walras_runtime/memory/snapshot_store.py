"""Stamped values in memory, with the answers of the store in Redis."""

from dataclasses import dataclass, field

from walras_runtime.redis.versioned import (
    Outcome,
    Presence,
    Stamp,
    StoreUnavailableError,
    Versioned,
    WriteResult,
    presence_of,
)


@dataclass(slots=True)
class MemoryServer:
    """What several stores share: values by log and name; it can be wiped and be away."""

    values: dict[tuple[str, str], Versioned] = field(default_factory=dict)
    away: bool = False

    def wipe(self) -> None:
        """Lose everything, as a restart without persistence does."""
        self.values.clear()

    def known_logs(self) -> list[str]:
        """Return the ids of the logs that have a value here, sorted."""
        return sorted({log_id for log_id, _ in self.values})


class MemorySnapshotStore:
    """The stamped value ``name`` of the log ``log_id`` on a server in memory."""

    def __init__(self, server: MemoryServer, log_id: str, name: str) -> None:
        self._server = server
        self._key = (log_id, name)

    async def write(self, value: Versioned) -> WriteResult:
        """Put the value iff its stamp is newer than the one held."""
        held = self._held()
        if held is None or held.stamp < value.stamp:
            self._server.values[self._key] = Versioned(value.stamp, dict(value.fields))
            return WriteResult(Outcome.WRITTEN, value.stamp)
        if value.stamp < held.stamp:
            return WriteResult(Outcome.STALE, held.stamp)
        same = dict(held.fields) == dict(value.fields)
        return WriteResult(Outcome.REPEATED if same else Outcome.CONFLICT, held.stamp)

    async def read(self) -> Versioned | None:
        """Return the value held; None when there is none."""
        return self._held()

    async def presence(self, written: Stamp) -> Presence:
        """Tell whether what was written with stamp ``written`` is still there."""
        held = self._held()
        return presence_of(None if held is None else held.stamp, written)

    def _held(self) -> Versioned | None:
        if self._server.away:
            raise StoreUnavailableError("the server in memory was told to be away")
        return self._server.values.get(self._key)
