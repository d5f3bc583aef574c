"""What a read_committed reader sees of the log while a run lasts, to know what to wait for."""

from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer

from tests.chaos.waiting import Watch
from tests.chaos_drains.terms import ENDED, HOLDS
from walras_contracts.capacity import NodePublished
from walras_contracts.drains import DrainSessionChanged
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import JobStatusChanged, LeaseGranted
from walras_runtime.records import Record

FOLLOWED: Final = (
    *("nodes", "leases", "job.status", "drain.sessions", "drain.commands", "lease.status"),
)


class Live(Watch):
    """Barriers, sessions, leases and lost nodes so far."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        super().__init__(consumer, [load_topics()[name] for name in FOLLOWED])
        self.begun: set[str] = set()
        """Sessions of which agents were told."""
        self.open: set[str] = set()
        """Sessions that have not ended."""
        self.parts: set[str] = set()
        """Parts of leases that have a record."""
        self.running: set[str] = set()
        """Jobs that hold a lease."""
        self.lost: set[str] = set()
        """Nodes."""

    def last_step(self, names: Iterable[str] = FOLLOWED) -> int:
        """Return the last step that all partitions of some topics show; -1: none.

        Raises
        ------
        KafkaError
            The reader broke.
        """
        self.look()
        wanted = frozenset(names)
        return min(seen for (name, _), seen in self._seen.items() if name in wanted)

    def ticked(self) -> int:
        """Return the last barrier that the ticker has written."""
        return max(seen for (name, _), seen in self._seen.items() if name == "lease.status")

    def take(self, record: Record) -> None:
        """Take what a record says of leases, jobs, nodes and sessions."""
        if record.topic == LeaseGranted.TOPIC:
            _keep(self.parts, record.key, record.value is not None)
        if record.value is None:
            self.running.discard(record.key)
        if record.value is None or record.topic in {"leases", "drain.commands", "lease.status"}:
            return
        event = decode_inner(record.type, record.value)
        if isinstance(event, NodePublished):
            _keep(self.lost, event.node, event.lost)
        elif isinstance(event, JobStatusChanged):
            _keep(self.running, event.record_key(), event.state in HOLDS)
        elif isinstance(event, DrainSessionChanged):
            _keep(self.open, event.session, event.state not in ENDED)
            if event.commanded_ms is not None:
                self.begun.add(event.session)


def _keep(found: set[str], name: str, there: bool) -> None:
    if there:
        found.add(name)
    else:
        found.discard(name)
