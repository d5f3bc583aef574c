"""What an audit reads: the records of each topic and partition in order, barriers in their places.

The same audit runs over a log in memory, over a directory of JSON lines
(:mod:`walras.audit.log_directory`) and over a broker (:mod:`walras.audit_broker`).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from walras_runtime.memory.log import MemoryLog

INPUT_TOPICS: Final = ("usage", "prices", "accounts", "drain.status")
"""What everything is computed from."""
BUDGETS: Final = "budgets"
ALERTS: Final = "budgets.alerts"
BILLING_TOPICS: Final = (
    *("charges", "charges.pending", "usage.quarantined", "ledger", "balances", BUDGETS, ALERTS),
)
INVOICES: Final = "invoices"
AUDITED_TOPICS: Final = (*INPUT_TOPICS, *BILLING_TOPICS, INVOICES)
NO_BARRIER: Final = -1


class Entry(NamedTuple):
    """One record of a partition. ``barrier``: its number and market time, if it is one.

    ``value`` is None for a tombstone.
    """

    offset: int
    key: str
    type: str
    value: bytes | None
    barrier: tuple[int, int] | None = None


class AuditLog(Protocol):
    """A log that an audit can read, each partition as often as it wants."""

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic; none where the log does not have it."""

    def entries(self, topic: str, partition: int) -> Iterator[Entry]:
        """Yield what a partition holds, in order."""

    def last_barrier(self, topic: str, partition: int) -> int:
        """Return the number of the last barrier of a partition; -1: it has none."""

    def size(self, topic: str, partition: int) -> int:
        """Return about how many records a partition holds, for a progress bar."""


class AuditError(Exception):
    """There is nothing to audit: the log is not there, not Walras', or not whole."""

    code = "audit_impossible"
    retriable = False


class MemoryAuditLog:
    """A log in memory, as simulations and tests have it."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic."""
        return self._log.partitions(topic) if topic in self._log.topics else range(0)

    def entries(self, topic: str, partition: int) -> Iterator[Entry]:
        """Yield what a partition holds, in order."""
        for entry in self._log.read(topic, partition, 0):
            barrier = entry.barrier
            mark = None if barrier is None else (barrier.number, barrier.market_time_ms)
            yield Entry(entry.offset, entry.key, entry.type, entry.payload, mark)

    def last_barrier(self, topic: str, partition: int) -> int:
        """Return the number of the last barrier of a partition; -1: it has none."""
        for entry in reversed(self._log.read(topic, partition, 0)):
            if entry.barrier is not None:
                return entry.barrier.number
        return NO_BARRIER

    def size(self, topic: str, partition: int) -> int:
        """Return how many records a partition holds."""
        return len(self._log.read(topic, partition, 0))
