"""Which attempt is made when: lanes, receivers, positions. It neither waits nor sends.

A lane is what one team has for one receiver. It is brought in order, one at a time; lanes do not
wait for each other, but for one of the few connections that each receiver has.
"""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from walras_contracts.drains import NotificationIssued
from walras_notifier.core import GIVEN_UP, Draw, Fate, Policy, backoff_ms, fate_of
from walras_notifier.outcomes import Delivered, Failed, Outcome
from walras_notifier.state import Delivery, Lane, Track, position_of, track_of
from walras_notifier.subscriptions import Receiver, Routing

EXPIRED_UNTRIED = "it came too late"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that is to be made now."""

    receiver: Receiver
    lane: Lane
    delivery: Delivery

    @property
    def notice(self) -> NotificationIssued:
        """What is to be brought."""
        return self.delivery.notice


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a delivery, or of an attempt at it."""

    receiver: Receiver
    notice: NotificationIssued
    fate: Fate
    attempts: int
    why: str


@dataclass(slots=True)
class _Line:
    """One receiver: its lanes, and those of them that wait for their time, soonest first."""

    receiver: Receiver
    lanes: dict[tuple[int, str], Lane] = field(default_factory=dict)
    waiting: list[tuple[int, int, Lane]] = field(default_factory=list)
    running: int = 0
    not_before_ms: int | None = None
    failing: bool = False


class Dispatcher:
    """Takes notices, says which attempts to make, and is told what came of them.

    All times are of one monotonic clock, ms.

    Parameters
    ----------
    receivers
        Who may get notices.
    policy
        How they are tried.
    draw
        Source of the jitter.
    """

    def __init__(self, receivers: Iterable[Receiver], policy: Policy, draw: Draw) -> None:
        self._lines = {receiver.name: _Line(receiver) for receiver in receivers}
        self._routing = Routing(line.receiver for line in self._lines.values())
        self._policy = policy
        self._draw = draw
        self._tracks: dict[int, Track] = {}
        self._active: dict[int, None] = {}
        self._entries = 0
        self._open: Counter[int] = Counter()
        self._reports: list[Report] = []

    # --- the log -----------------------------------------------------------------------------

    def begin(self, partition: int, offset: int, note: str) -> list[str]:
        """Start a partition where it was left; return the receivers that nobody knows any more."""
        track = track_of(offset, note)
        for line in self._lines.values():
            for key in [key for key in line.lanes if key[0] == partition]:
                del line.lanes[key]
            line.waiting = [entry for entry in line.waiting if entry[2].partition != partition]
            heapq.heapify(line.waiting)
        del self._open[partition]
        self._tracks[partition] = track
        self._active[partition] = None
        return sorted(track.done.keys() - self._lines.keys())

    def resume(self, partition: int) -> int:
        """Go on with a partition that nobody has moved; return the offset to read from."""
        self._active[partition] = None
        for line in self._lines.values():
            for (of_partition, _), lane in line.lanes.items():
                if of_partition == partition and not lane.running:
                    self._push(line, lane, lane.due_ms)
        return self._tracks[partition].read

    def suspend(self) -> None:
        """Start nothing more; what is under way is still finished or abandoned."""
        self._active.clear()
        for line in self._lines.values():
            line.waiting.clear()

    def take(
        self, partition: int, offset: int, notice: NotificationIssued, limit: int, now_ms: int
    ) -> None:
        """Take the next notice of a partition; ``limit`` is when nobody needs it any more."""
        track = self._tracks[partition]
        if offset < track.read:
            return
        track.read = offset + 1
        for name in self._routing.receivers_of(notice):
            if not track.left_for(name, offset):
                continue
            track.opened(name, offset)
            self._open[partition] += 1
            line = self._lines[name]
            lane = line.lanes.setdefault((partition, notice.team), Lane(partition, notice.team))
            lane.queue.append(Delivery(partition, offset, notice, limit))
            if len(lane.queue) == 1:
                self._push(line, lane, now_ms)

    def passed(self, partition: int, offset: int) -> None:
        """Note that there is nothing more to take before an offset."""
        track = self._tracks[partition]
        track.read = max(track.read, offset)

    def position(self, partition: int) -> tuple[int, str]:
        """Return the offset before which all is over, and the note that goes with it."""
        return position_of(self._tracks[partition])

    def full(self) -> bool:
        """Whether no more notices should be taken for now."""
        return self.open_deliveries() >= self._policy.most_open

    # --- the attempts ------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[Attempt]:
        """Return the attempts to make now; each is to be finished or abandoned."""
        attempts: list[Attempt] = []
        for line in self._lines.values():
            while self._has_due(line, now_ms):
                _, _, lane = heapq.heappop(line.waiting)
                delivery = lane.queue[0]
                if delivery.limit_ms <= now_ms:
                    self._end(line, lane, Fate.EXPIRED, delivery.why or EXPIRED_UNTRIED, now_ms)
                elif line.not_before_ms is not None and line.not_before_ms > now_ms:
                    self._push(line, lane, min(line.not_before_ms, delivery.limit_ms))
                else:
                    lane.running = True
                    line.running += 1
                    delivery.attempts += 1
                    attempts.append(Attempt(line.receiver, lane, delivery))
        return attempts

    def finish(self, attempt: Attempt, outcome: Outcome, now_ms: int) -> None:
        """Take what came of an attempt."""
        line, delivery = self._released(attempt), attempt.delivery
        line.failing = not isinstance(outcome, Delivered)
        fate = fate_of(outcome)
        delivery.why = "" if isinstance(outcome, Delivered) else outcome.why
        if fate is not Fate.RETRIED:
            self._end(line, attempt.lane, fate, delivery.why, now_ms)
            return
        self._report(line, delivery, Fate.RETRIED, delivery.why)
        if isinstance(outcome, Failed) and outcome.retry_after_ms is not None:
            line.not_before_ms = max(line.not_before_ms or 0, now_ms + outcome.retry_after_ms)
        again_ms = now_ms + backoff_ms(delivery.attempts, self._policy, self._draw)
        self._push(line, attempt.lane, min(again_ms, delivery.limit_ms))

    def abandon(self, attempt: Attempt, now_ms: int) -> None:
        """Take back an attempt that was broken off: nobody knows what came of it."""
        line = self._released(attempt)
        self._push(line, attempt.lane, now_ms)

    def wake_ms(self) -> int | None:
        """Return when the next attempt is due by itself; None: not before something happens."""
        due = [
            line.waiting[0][0]
            for line in self._lines.values()
            if line.waiting and line.running < self._policy.connections
        ]
        return min(due, default=None)

    # --- what is told ------------------------------------------------------------------------

    def reports(self) -> list[Report]:
        """Return what happened since the last call."""
        reports, self._reports = self._reports, []
        return reports

    def open_deliveries(self) -> int:
        """Return how many deliveries of the partitions that are ours are not over."""
        return sum(self._open[partition] for partition in self._active)

    def failing(self) -> list[str]:
        """Return the receivers at which the last attempt failed."""
        return sorted(name for name, line in self._lines.items() if line.failing)

    def _has_due(self, line: _Line, now_ms: int) -> bool:
        if not line.waiting or line.waiting[0][0] > now_ms:
            return False
        return line.running < self._policy.connections

    def _push(self, line: _Line, lane: Lane, due_ms: int) -> None:
        lane.due_ms = due_ms
        if lane.partition in self._active:
            # Of what is due at one time, what came first is first.
            self._entries += 1
            heapq.heappush(line.waiting, (due_ms, self._entries, lane))

    def _released(self, attempt: Attempt) -> _Line:
        line = self._lines[attempt.receiver.name]
        line.running -= 1
        attempt.lane.running = False
        return line

    def _end(self, line: _Line, lane: Lane, fate: Fate, why: str, now_ms: int) -> None:
        """Take the first delivery of a lane away and let the next one follow."""
        delivery = lane.queue.popleft()
        self._open[lane.partition] -= 1
        self._tracks[lane.partition].closed(line.receiver.name, delivery.offset)
        self._report(line, delivery, fate, why)
        if lane.queue:
            self._push(line, lane, now_ms)
        else:
            del line.lanes[(lane.partition, lane.team)]

    def _report(self, line: _Line, delivery: Delivery, fate: Fate, why: str) -> None:
        self._reports.append(Report(line.receiver, delivery.notice, fate, delivery.attempts, why))


def is_given_up(report: Report) -> bool:
    """Whether a delivery ended without having been brought."""
    return report.fate in GIVEN_UP
