import asyncio

import pytest

from walras_contracts.topics import load_topics
from walras_runtime.memory.log import MemoryLog
from walras_runtime.records import Barrier
from walras_runtime.settings import SettingsError
from walras_runtime.telemetry import Telemetry
from walras_ticker.core import HaltCode, Look
from walras_ticker.settings import Settings
from walras_ticker.state import TickerState
from walras_ticker.wiring import ClockHaltError, SystemClock, stand_by, tick

INTERVAL_MS = 5_000
START_MS = 1_728_000_000_000


class LogWriter:
    """Writes barriers into a log in memory."""

    def __init__(self) -> None:
        self.log = MemoryLog(load_topics())

    async def write(self, barrier: Barrier) -> None:
        for topic in self.log.topics.values():
            if topic.barriers == "outside":
                for partition in range(topic.partitions):
                    self.log.append_barrier(topic.name, partition, barrier)

    def barriers(self, topic: str, partition: int) -> list[Barrier]:
        return [e.barrier for e in self.log.read(topic, partition, 0) if e.barrier is not None]


class ManualClock:
    """A clock that a pause moves on at once; ``jumps`` moves the wall clock at a pause."""

    def __init__(self, stop: asyncio.Event, pauses: int, jumps: dict[int, int]) -> None:
        self.wall_ms, self.monotonic_ms = START_MS, 0
        self._stop, self._left, self._jumps, self._count = stop, pauses, jumps, 0

    def look(self) -> Look:
        return Look(self.wall_ms, self.monotonic_ms)

    async def pause(self, duration_ms: int, *until: asyncio.Event) -> None:
        assert duration_ms > 0
        assert self._stop in until
        self._count += 1
        self.monotonic_ms += duration_ms
        self.wall_ms += duration_ms + self._jumps.get(self._count, 0)
        if self._count == self._left:
            self._stop.set()


async def ticked(pauses: int, jumps: dict[int, int]) -> tuple[LogWriter, TickerState]:
    stop, writer, state = asyncio.Event(), LogWriter(), TickerState()
    clock = ManualClock(stop, pauses, jumps)
    await tick(state, writer, clock, INTERVAL_MS, stop, telemetry=Telemetry("ticker"))
    return writer, state


@pytest.mark.asyncio
async def test_every_partition_of_every_outside_topic_gets_every_barrier() -> None:
    writer, state = await ticked(pauses=10, jumps={})
    expected = [Barrier(n, START_MS + n * INTERVAL_MS) for n in range(10)]
    topics = [t for t in load_topics().values() if t.barriers == "outside"]
    assert topics
    for topic in topics:
        for partition in range(topic.partitions):
            assert writer.barriers(topic.name, partition) == expected
    assert state.last == expected[-1]


@pytest.mark.asyncio
async def test_a_jump_ends_the_ticking_before_anything_is_written() -> None:
    stop, writer, state = asyncio.Event(), LogWriter(), TickerState()
    clock = ManualClock(stop, 100, {5: 3_600_000})
    with pytest.raises(ClockHaltError) as halted:
        await tick(state, writer, clock, INTERVAL_MS, stop, telemetry=Telemetry("ticker"))
    assert halted.value.halt.code is HaltCode.CLOCK_JUMP
    assert len(writer.barriers("demand", 0)) == 5


@pytest.mark.asyncio
async def test_a_standby_whose_clock_jumps_does_not_lead() -> None:
    stop, elected = asyncio.Event(), asyncio.Event()
    clock = ManualClock(stop, 100, {3: -3_600_000})
    with pytest.raises(ClockHaltError):
        await stand_by(TickerState(), clock, INTERVAL_MS, elected, stop)


@pytest.mark.asyncio
async def test_a_standby_leaves_when_it_is_elected_or_stopped() -> None:
    stop, elected = asyncio.Event(), asyncio.Event()
    await stand_by(TickerState(), ManualClock(elected, 3, {}), INTERVAL_MS, elected, stop)
    assert elected.is_set()
    elected.clear()
    await stand_by(TickerState(), ManualClock(stop, 3, {}), INTERVAL_MS, elected, stop)
    assert stop.is_set()


@pytest.mark.asyncio
async def test_a_pause_ends_when_an_event_is_set() -> None:
    stop, other = asyncio.Event(), asyncio.Event()
    pausing = asyncio.create_task(SystemClock().pause(3_600_000, other, stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(pausing, 60)
    await SystemClock().pause(1, other)


def test_a_wrong_interval_is_named() -> None:
    with pytest.raises(SettingsError, match="INTERVAL_MS"):
        Settings.read(kafka_bootstrap="none:0", interval_ms=0)
    assert Settings.read(kafka_bootstrap="none:0").barrier_interval_ms() == INTERVAL_MS
