"""What a SIGKILL does to the step loop on a real broker: at each gap of its table, and anywhere."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.runtime.tests.kafka_rig import Echo, Item, Rig, check_exactly_once
from walras_launcher.running import Broker
from walras_runtime.kafka.wire import BarrierMark
from walras_runtime.records import Barrier, Record

pytestmark = pytest.mark.broker

STEPS = 8
AT = 4
SIGKILLED = -9


def last_seen(items: Sequence[Item]) -> int:
    return max((i.barrier.number for i in items if isinstance(i, BarrierMark)), default=-1)


# gap: the last step that readers may see after the crash, and the epoch then claimed
TABLE = {
    1: ({-1}, 0),
    2: ({-1}, 1),
    3: ({AT - 1}, 1),
    4: ({AT - 1}, 1),
    5: ({AT - 1}, 1),
    6: ({AT - 1, AT}, 1),
    7: ({AT}, 1),
}


@pytest.mark.parametrize("gap", sorted(TABLE))
@pytest.mark.asyncio
async def test_a_crash_in_a_gap_of_the_table_leaves_what_the_table_says(
    gap: int, kafka_broker: Broker, tmp_path: Path
) -> None:
    visible, epoch = TABLE[gap]
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await rig.feed_steps(STEPS)
        step = AT if gap > 2 else -1
        broken = rig.start_echo(ECHO_FAULT=f"kill@{gap}@{step}")
        assert await broken.exit_code() == SIGKILLED, broken.text()
        async with rig.running(spread=False, election_session_ms=1000) as successor:
            # The successor fences what was open; only then is the end of the log settled.
            async with rig.follow() as out:
                await out.until(STEPS - 1)
            assert successor.metric("walras_position_disagreements_total", partition="0") == 0
        seen = await rig.committed()
        rig.check(seen, spread=False)
        assert (await rig.claim()).epoch == epoch + 1
        first_epoch = [i for i in seen[0] if isinstance(i, BarrierMark) and i.epoch == epoch]
        assert last_seen(first_epoch) in visible


@pytest.mark.asyncio
async def test_a_runner_that_publishes_outside_the_transaction_is_caught_by_the_checker(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await rig.feed_steps(STEPS)
        broken = rig.start_echo(ECHO_FAULT=f"outside@0@{AT}")
        assert await broken.exit_code() == SIGKILLED, broken.text()
        async with rig.running(spread=False, election_session_ms=1000), rig.follow() as out:
            await out.until(STEPS - 1)
        seen = await rig.committed()
        with pytest.raises(AssertionError, match="barriers 0"):
            rig.check(seen, spread=False)


async def killed_at_random(rig: Rig, rng: random.Random, kills: int, steps: int) -> None:
    """Feed steps while the service is killed and started again; then let it finish."""

    async def feed() -> None:
        async with rig.writer() as writer:
            for _ in range(steps):
                await rig.feed(writer)
                await asyncio.sleep(rng.uniform(0.0, 0.04))

    feeding = asyncio.create_task(feed())
    async with rig.follow() as out:
        for _ in range(kills):
            echo = rig.start_echo(spread=True)
            await killed_soon(echo, rng)
            await out.poll()
        last = rig.start_echo(spread=True)
        await feeding
        await out.until(steps - 1)
        assert last.process.poll() is None, last.text()
    rig.check(await rig.committed(), spread=True)


async def killed_soon(echo: Echo, rng: random.Random) -> None:
    """Kill at any time: one in four while it starts, else a moment after it restored."""
    if rng.random() < 0.25:
        await echo.says("claimed")
        await asyncio.sleep(rng.uniform(0.0, 0.05))
    else:
        await echo.says("restored")
        await asyncio.sleep(rng.uniform(0.0, 0.4))
    echo.kill()


@pytest.mark.asyncio
async def test_sigkills_at_random_times_neither_lose_nor_double_a_record(
    kafka_broker: Broker, tmp_path: Path, global_random_seed: int
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await killed_at_random(rig, random.Random(global_random_seed), kills=8, steps=150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.asyncio
async def test_many_sigkills_at_random_times_neither_lose_nor_double_a_record(
    kafka_broker: Broker, tmp_path: Path, seed: int
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await killed_at_random(rig, random.Random(seed), kills=30, steps=1_000)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lost", "partition 0"),
        ("doubled", "partition 0"),
        ("hole", "barriers 0"),
        ("older", "older owner"),
    ],
)
def test_the_checker_sees_each_kind_of_fault(fault: str, message: str) -> None:
    def record(count: int, value: bytes) -> Record:
        return Record("out", 0, 0, "k", "t", b"%d:%s" % (count, value))

    def mark(number: int, epoch: int = 1) -> BarrierMark:
        return BarrierMark(Barrier(number, 0), epoch, 0, 0, None)

    good: list[Item] = [record(1, b"a"), mark(0), record(2, b"b"), mark(1)]
    fed = [(0, b"a"), (0, b"b")]
    check_exactly_once(fed, {0: good}, last=1, spread=True)
    bad: list[Item] = {
        "lost": [good[0], good[1], good[3]],
        "doubled": [good[0], *good],
        "hole": good[:3],
        "older": [good[0], mark(0, 2), good[2], mark(1, 1)],
    }[fault]
    with pytest.raises(AssertionError, match=message):
        check_exactly_once(fed, {0: bad}, last=1, spread=True)
