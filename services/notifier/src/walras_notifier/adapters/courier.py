"""Makes the attempts that are due, and tells what came of them.

The order of events is decided elsewhere; here are tasks, timers and the clock.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import structlog

from walras_contracts.drains import NotificationIssued
from walras_notifier.adapters.metrics import Metrics
from walras_notifier.core import Clocks, Fate
from walras_notifier.dispatching import Attempt, Dispatcher, Report, is_given_up
from walras_notifier.handlers import HANDLERS, Moment
from walras_notifier.outcomes import Failed, Outcome
from walras_notifier.subscriptions import Receiver
from walras_runtime.clock import monotonic_ms, wall_ms
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Progress
from walras_runtime.records import Record

Send = Callable[[Receiver, NotificationIssued], Awaitable[Outcome]]

LOOK_EVERY_S: Final = 1.0
GRACE_S: Final = 3.0
"""How long attempts under way may go on when the partition is another's, or at the end."""

logger = structlog.get_logger("walras")


class Courier:
    """The effects of the topic of notices.

    Parameters
    ----------
    dispatcher
        Decides what is to be done.
    channels
        How it is done, by channel. None of them may take for ever, or raise what it expects.
    metrics, health
        Where it is told.
    mode
        What market time is: see :func:`walras_notifier.core.on_monotonic`.
    give_up_after_ms
        As in the policy.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        channels: Mapping[str, Send],
        metrics: Metrics,
        health: Health,
        *,
        mode: Literal["live", "replay"],
        give_up_after_ms: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._channels = channels
        self._metrics = metrics
        self._health = health
        self._mode: Literal["live", "replay"] = mode
        self._give_up_after_ms = give_up_after_ms
        self._running: set[asyncio.Task[None]] = set()
        self._broken: BaseException | None = None
        self._something = asyncio.Event()
        self._working = False
        self._failing: list[str] = []

    # --- the log (walras_runtime.kafka.effects.Effects) ----------------------------------------

    def begin(self, partition: int, start: Progress) -> int:
        """Go on where a partition was left."""
        unknown = self._dispatcher.begin(partition, start.offset, start.note)
        if unknown:
            logger.warning("receivers_gone_with_notices_left", receivers=unknown)
        self._work_on()
        return start.offset

    def resume(self, partition: int) -> int:
        """Go on with a partition that nobody has moved."""
        offset = self._dispatcher.resume(partition)
        self._work_on()
        return offset

    def take(self, record: Record, stamp_ms: int) -> None:
        """Take the next record."""
        handle = HANDLERS.get(record.type)
        if handle is not None:
            clocks = Clocks(wall_ms(), monotonic_ms())
            moment = Moment(clocks, stamp_ms, self._mode, self._give_up_after_ms)
            handle(self._dispatcher, record, moment)
        self._something.set()

    def passed(self, partition: int, offset: int) -> None:
        """There is nothing more to take before an offset."""
        self._dispatcher.passed(partition, offset)

    def progress(self, partition: int) -> Progress:
        """Return how far a partition has come."""
        return Progress(*self._dispatcher.position(partition))

    def full(self) -> bool:
        """Whether no more should be taken for now; red meanwhile."""
        full = self._dispatcher.full()
        if full:
            waiting = ", ".join(self._failing)
            self._health.fail("backlog", f"too many deliveries are open; failing: {waiting}")
        else:
            self._health.clear("backlog")
        return full

    async def end(self) -> None:
        """Start nothing more; let what is under way finish for a moment, then break it off.

        Raises
        ------
        Exception
            What broke while an attempt was judged; :meth:`run` raises it as well.
        """
        self._working = False
        self._dispatcher.suspend()
        if self._running:
            await asyncio.wait(self._running, timeout=GRACE_S)
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._tell()
        self._raise_broken()

    def _work_on(self) -> None:
        self._working = True
        self._something.set()

    # --- the attempts ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Make attempts whenever some are due, until stopped.

        Raises
        ------
        Exception
            What broke while an attempt was judged: its lane would stand still, and nobody would
            know.
        """
        while not stop.is_set():
            self._something.clear()
            self._raise_broken()
            if self._working:
                for attempt in self._dispatcher.start(monotonic_ms()):
                    task = asyncio.create_task(self._attempt(attempt))
                    self._running.add(task)
                    task.add_done_callback(self._ended)
            self._tell()
            await self._wait(stop)

    async def _wait(self, stop: asyncio.Event) -> None:
        """Wait until something happens, an attempt is due, or for a moment."""
        due_ms = self._dispatcher.wake_ms() if self._working else None
        timeout_s = LOOK_EVERY_S
        if due_ms is not None:
            timeout_s = min(timeout_s, max(0, due_ms - monotonic_ms()) / 1000)
        waits = [asyncio.create_task(event.wait()) for event in (self._something, stop)]
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._broken = self._broken or task.exception()
            self._something.set()

    def _raise_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    async def _attempt(self, attempt: Attempt) -> None:
        try:
            outcome = await self._channels[attempt.receiver.channel](
                attempt.receiver, attempt.notice
            )
        except asyncio.CancelledError:
            self._dispatcher.abandon(attempt, monotonic_ms())
            raise
        except Exception as error:  # noqa: BLE001 - one notice must not hold up all the others
            # Without its message, which might name an address.
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{frame.filename}:{frame.lineno}" for frame in frames]
            logger.error("attempt_broken", error=type(error).__name__, where=where)
            outcome = Failed(f"internal: {type(error).__name__}")
        self._dispatcher.finish(attempt, outcome, monotonic_ms())
        self._something.set()

    # --- what is told ---------------------------------------------------------------------------

    def _tell(self) -> None:
        """Count and log what happened; addresses are not named, receivers are."""
        for report in self._dispatcher.reports():
            self._metrics.count(report)
            _log(report)
        failing = self._dispatcher.failing()
        for name in sorted({*failing} - {*self._failing}):
            logger.warning("receiver_failing", receiver=name)
        for name in sorted({*self._failing} - {*failing}):
            logger.info("receiver_takes_notices_again", receiver=name)
        self._failing = failing
        self._health.details["open_deliveries"] = str(self._dispatcher.open_deliveries())
        self._health.details["failing_receivers"] = ", ".join(failing)


def _log(report: Report) -> None:
    fields = {
        "notification": report.notice.notification,
        "kind": report.notice.kind.value,
        "team": report.notice.team,
        "receiver": report.receiver.name,
        "attempts": report.attempts,
    }
    if is_given_up(report):
        logger.warning("notification_given_up", reason=report.fate.value, last=report.why, **fields)
    elif report.fate is Fate.DELIVERED:
        logger.info("notification_delivered", **fields)
    else:
        logger.debug("notification_retried", last=report.why, **fields)
