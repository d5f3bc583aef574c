"""The ticker on Kafka: stand by, lead, write barriers, step aside.

Only the newest writer with the ticker's transactional id can commit, so that a barrier number is
written once whatever the replicas believe. The epoch in the ``ticks`` topic says who wrote last:
after an error a replica looks at it *before* it starts a writer, because starting one would fence
the rightful owner.
"""

import asyncio
from typing import Final, Protocol

import structlog
from aiokafka.errors import KafkaError

from walras_contracts.topics import load_topics
from walras_runtime.clock import monotonic_ms, wall_ms
from walras_runtime.errors import (
    BrokerUnavailableError,
    FencedError,
    ProducerFailedError,
    WalrasError,
)
from walras_runtime.health import Health
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.kafka.election import campaign
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Barrier
from walras_runtime.telemetry import Telemetry
from walras_ticker.core import Halt, Look, Wait, Write, decide, jump_of
from walras_ticker.handlers import happened
from walras_ticker.settings import Settings
from walras_ticker.state import TickerState, is_ours

TRANSACTIONAL_ID: Final = "walras.ticker.0"
RETRY_MS: Final = 500
"""Pause before looking at the log again while the broker is away."""
BROKER_ERRORS: Final = (
    KafkaError,
    ProducerFailedError,
    BrokerUnavailableError,
    TimeoutError,
)
logger = structlog.get_logger("walras")


class ClockHaltError(WalrasError):
    """The clock cannot be trusted; ``halt`` says why."""

    code = "clock_halt"

    def __init__(self, halt: Halt) -> None:
        super().__init__(f"{halt.code.value}: {halt.reason}")
        self.halt = halt


class Writer(Protocol):
    """What takes barriers."""

    async def write(self, barrier: Barrier) -> None:
        """Write a barrier into every partition, or into none."""


class Clock(Protocol):
    """What tells and passes the time."""

    def look(self) -> Look:
        """Read both clocks."""

    async def pause(self, duration_ms: int, *until: asyncio.Event) -> None:
        """Return when the time has passed or one of the events is set."""


class SystemClock:
    """The clocks of this machine."""

    def look(self) -> Look:
        """Read both clocks."""
        return Look(wall_ms(), monotonic_ms())

    async def pause(self, duration_ms: int, *until: asyncio.Event) -> None:
        """Return when the time has passed or one of the events is set."""
        waits = [asyncio.create_task(event.wait()) for event in until]
        try:
            await asyncio.wait(
                waits, timeout=duration_ms / 1000, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()


async def stand_by(
    state: TickerState,
    clock: Clock,
    interval_ms: int,
    elected: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Wait to be elected or stopped, with an eye on the clock.

    Raises
    ------
    ClockHaltError
        The clock jumped: this replica must not lead.
    """
    while not (elected.is_set() or stop.is_set()):
        now = clock.look()
        jump = jump_of(state.look, now, interval_ms)
        if jump is not None:
            raise ClockHaltError(jump)
        happened(state, now)
        await clock.pause(interval_ms, elected, stop)


async def tick(
    state: TickerState,
    writer: Writer,
    clock: Clock,
    interval_ms: int,
    stop: asyncio.Event,
    *,
    telemetry: Telemetry,
) -> None:
    """Write barriers as they fall due, until stopped.

    Raises
    ------
    ClockHaltError
        The clock cannot be trusted.
    """
    while not stop.is_set():
        now = clock.look()
        decision = decide(state.last, state.look, now, interval_ms)
        happened(state, now)
        match decision:
            case Write(barrier):
                state.tried = barrier
                await writer.write(barrier)
                happened(state, barrier)
                telemetry.steps.labels("0").inc()
                telemetry.barrier.labels("0").set(barrier.number)
            case Wait(until_ms):
                # Never longer than an interval, so that a jump is seen soon.
                await clock.pause(min(until_ms - now.wall_ms, interval_ms), stop)
            case Halt():
                raise ClockHaltError(decision)


async def check_ours(settings: Settings, state: TickerState, held_epoch: int) -> None:
    """Look at who wrote last, without starting a writer.

    Raises
    ------
    FencedError
        Another replica.
    """
    last, epoch = None, 0
    ticks = load_topics()["ticks"].full_name
    for message in await read_all(settings.kafka_bootstrap, ticks, [0]):
        mark = parse_message(message, "ticks")
        if isinstance(mark, BarrierMark):
            last, epoch = mark.barrier, mark.epoch
    if not is_ours(state, last, epoch + 1, held_epoch):
        raise FencedError(f"epoch {epoch} writes the barriers now")


async def lead(
    settings: Settings,
    state: TickerState,
    clock: Clock,
    stop: asyncio.Event,
    *,
    telemetry: Telemetry,
    health: Health,
) -> None:
    """Write barriers to the broker, through its interruptions.

    Raises
    ------
    FencedError
        Another replica leads.
    ClockHaltError
        The clock cannot be trusted.
    """
    held_epoch: int | None = None
    while not stop.is_set():
        try:
            if held_epoch is not None:
                await check_ours(settings, state, held_epoch)
            async with BarrierWriter(
                settings.kafka_bootstrap,
                load_topics(settings.partitions),
                transactional_id=TRANSACTIONAL_ID,
                transaction_timeout_ms=settings.transaction_timeout_ms,
                source="walras/ticker",
            ) as writer:
                # Read again: this writer's start ended whatever an older one still had open.
                state.last = await writer.last_barrier()
                held_epoch = writer.epoch
                telemetry.epoch.labels("0").set(writer.epoch)
                health.clear("barriers")
                health.ready = True
                logger.info("leading", epoch=writer.epoch)
                interval_ms = settings.barrier_interval_ms()
                await tick(state, writer, clock, interval_ms, stop, telemetry=telemetry)
        except BROKER_ERRORS as error:
            logger.warning("barriers_interrupted", error=repr(error))
            telemetry.restarts.labels("0").inc()
            health.fail("barriers", repr(error))
            health.ready = False
            await clock.pause(RETRY_MS, stop)


async def run(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Serve until stopped; with a clock that cannot be trusted, stay red and write nothing.

    Raises
    ------
    FencedError
        Another replica leads.
    TopicMismatchError
        The broker's topics are not those of the registry.
    """
    topics, clock, state = load_topics(settings.partitions), SystemClock(), TickerState()
    needed = {n: t for n, t in topics.items() if t.barriers == "outside" or n == "claims"}
    await check_topics(settings.kafka_bootstrap, needed)
    try:
        async with campaign(
            settings.kafka_bootstrap,
            topics["claims"].full_name,
            settings.SERVICE,
            session_ms=settings.election_session_ms,
        ) as elected:
            await stand_by(state, clock, settings.barrier_interval_ms(), elected, stop)
            await lead(settings, state, clock, stop, telemetry=telemetry, health=health)
    except ClockHaltError as error:
        # Out of the election, so that a replica whose clock is right takes over. Not out of the
        # process: started again it would take the jump for an outage and write it into the log.
        logger.error("halted", why=str(error))
        health.fail("clock", str(error))
        health.ready = False
        await stop.wait()
