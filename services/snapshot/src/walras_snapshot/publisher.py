"""Keeps Redis as the projection has it, and goes on without Redis.

Pure but for the store it is given: when to look and what time it is come from outside.
"""

from dataclasses import dataclass, field

import structlog

from walras_runtime.health import Health
from walras_runtime.redis.versioned import (
    Outcome,
    Presence,
    SnapshotStore,
    Stamp,
    StoreCorruptError,
    StoreUnavailableError,
    WriteResult,
)
from walras_snapshot.projection import Snapshot

PART = "redis"
REMINDER_MS = 60_000
"""An outage is logged when it begins, when it ends, and so often in between."""

logger = structlog.get_logger("walras")


@dataclass(slots=True)
class Publisher:
    """Writes snapshots to a store and watches that the last one stays there."""

    health: Health
    written: Stamp | None = None
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    rewritten: int = 0
    _said: str = ""
    _said_ms: int = 0

    async def publish(self, store: SnapshotStore, snapshot: Snapshot, now_ms: int) -> bool:
        """Put a snapshot there; False when the store is away (it will be tried again).

        A refused write counts as done: the store holds something newer.
        """
        value = snapshot.versioned()
        try:
            result = await store.write(value)
        except (StoreUnavailableError, StoreCorruptError) as error:
            self._away(f"{error.code}: {error}", now_ms)
            return False
        self.written = value.stamp
        self.outcomes[result.outcome] = self.outcomes.get(result.outcome, 0) + 1
        self._answered(result, now_ms)
        return True

    async def check(self, store: SnapshotStore, snapshot: Snapshot, now_ms: int) -> Presence | None:
        """Look whether what was written is still there; write it again where it is not.

        Returns
        -------
        Presence or None
            What was found; None when the store is away.
        """
        stamp = snapshot.versioned().stamp
        try:
            found = await store.presence(stamp)
        except (StoreUnavailableError, StoreCorruptError) as error:
            self._away(f"{error.code}: {error}", now_ms)
            return None
        if found in {Presence.EMPTY, Presence.BEHIND}:
            if self.written is not None:
                self.rewritten += 1
                logger.warning("snapshot_rewritten", found=found.value, barrier=snapshot.barrier)
            await self.publish(store, snapshot, now_ms)
        elif found == Presence.CURRENT:
            self._fine(now_ms)
        return found

    def _answered(self, result: WriteResult, now_ms: int) -> None:
        if result.outcome in {Outcome.WRITTEN, Outcome.REPEATED}:
            self._fine(now_ms)
        else:
            self._away(f"{result.outcome.value}: Redis holds {result.held}", now_ms)

    def _fine(self, now_ms: int) -> None:
        if PART in self.health.faults:
            logger.info("snapshot_published_again")
        self.health.clear(PART)
        self._said, self._said_ms = "", now_ms

    def _away(self, reason: str, now_ms: int) -> None:
        self.health.fail(PART, reason)
        code = reason.partition(":")[0]
        if code != self._said or now_ms - self._said_ms >= REMINDER_MS:
            logger.warning("snapshot_not_published", why=reason)
            self._said, self._said_ms = code, now_ms
