"""One pass over a topic: counts, digest and barrier stamps, whatever else the pass is for."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from walras.report.digests import DECIDED_TOPICS, TopicDigest
from walras.report.records import PREVIOUS_COMMIT_HEADER, LogRecord
from walras.report.series import percentiles
from walras_runtime.records import BARRIER_TYPE

DEMAND = "demand"
QUOTAS = "quotas"
HOPS = ("queue", QUOTAS, "leases", "fleet.done")
"""Topics whose barrier n is committed one after the other: the serial part of a cycle."""


@dataclass(slots=True)
class Tally:
    """What every record of the log adds to, beside its own subject."""

    events: dict[str, Counter[str]] = field(default_factory=dict)
    barriers: Counter[str] = field(default_factory=Counter)
    tombstones: Counter[str] = field(default_factory=Counter)
    digests: dict[str, TopicDigest] = field(
        default_factory=lambda: {topic: TopicDigest() for topic in DECIDED_TOPICS}
    )
    ticked_ms: dict[int, int] = field(default_factory=dict)
    """Earliest stamp of each barrier in ``demand``: when its writer sent it."""
    committed_ms: dict[str, dict[int, int]] = field(
        default_factory=lambda: {topic: {} for topic in HOPS}
    )
    """When each barrier of a hop was committed, as the next barrier there tells."""

    def read(self, topic: str, records: Iterable[LogRecord]) -> Iterator[LogRecord]:
        """Count the records of a topic and yield those that carry an event."""
        events = self.events.setdefault(topic, Counter())
        digest = self.digests.get(topic)
        for record in records:
            if record.type == BARRIER_TYPE:
                self.barriers[topic] += 1
                self._stamp(topic, record)
                continue
            if digest is not None:
                digest.add(record)
            events[record.type] += 1
            if record.value is None:
                self.tombstones[topic] += 1
            else:
                yield record

    def count(self, topic: str, records: Iterable[LogRecord]) -> None:
        """Count the records of a topic that the report does not look into."""
        for _ in self.read(topic, records):
            pass

    def _stamp(self, topic: str, record: LogRecord) -> None:
        if topic == DEMAND:
            number = record.barrier_number()
            known_ms = self.ticked_ms.get(number, record.timestamp_ms)
            self.ticked_ms[number] = min(known_ms, record.timestamp_ms)
        elif topic in self.committed_ms and PREVIOUS_COMMIT_HEADER in record.headers:
            stamp_ms = int(record.headers[PREVIOUS_COMMIT_HEADER])
            previous = record.barrier_number() - 1
            committed = self.committed_ms[topic]
            committed[previous] = max(committed.get(previous, 0), stamp_ms)

    def latencies_ms(self) -> list[int]:
        """Return tick → committed quotas of each barrier that has both stamps, in order."""
        return [ms for ms in self._after_tick(QUOTAS) if ms >= 0]

    def backward(self) -> dict[str, int]:
        """Return for each hop how many barriers have a commit before their tick.

        The stamps are of two processes' wall clocks, and a clock may be set back between them:
        such a pair measures nothing, and is left out of the percentiles.
        """
        return {topic: sum(ms < 0 for ms in self._after_tick(topic)) for topic in HOPS}

    def hops(self) -> dict[str, dict[str, int | None]]:
        """Return percentiles of tick → commit for each hop of a cycle."""
        return {
            topic: percentiles([ms for ms in self._after_tick(topic) if ms >= 0]) for topic in HOPS
        }

    def _after_tick(self, topic: str) -> list[int]:
        committed = self.committed_ms[topic]
        return [
            committed[number] - ticked_ms
            for number, ticked_ms in sorted(self.ticked_ms.items())
            if number in committed
        ]

    def report(self) -> dict[str, dict[str, object]]:
        """Return events, barriers and tombstones per topic."""
        return {
            topic: {
                "events": sum(events.values()),
                "by_type": dict(sorted(events.items())),
                "tombstones": self.tombstones[topic],
                "barriers": self.barriers[topic],
            }
            for topic, events in sorted(self.events.items())
        }
