"""Effects at least once, on a real broker: what is not done is read again, nothing else."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from libs.runtime.tests.effects_rig import ZOMBIE, Diary, bench_on, has, letter
from libs.runtime.tests.kafka_rig import eventually
from walras_contracts.dead_letters import DeadLettered
from walras_launcher.process import kill, spawn
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.running import Broker
from walras_runtime.kafka import effects
from walras_runtime.kafka.effects import Progress
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.opening import opened

pytestmark = pytest.mark.broker


@pytest.mark.asyncio
async def test_what_is_committed_is_taken_and_the_position_follows(kafka_broker: Broker) -> None:
    bench = await bench_on(kafka_broker)
    await bench.write([letter("a")])
    await bench.write([letter("never")], commit=False)
    await bench.write([letter("b")])
    diary = Diary()
    async with bench.following(diary) as health:
        await has(diary, "a", "b")
        # Six: three records, and a mark of each transaction.
        await bench.holds(Progress(6))
        assert health.ready
        assert not health.waiting
        assert health.faults == {}
    assert diary.ended >= 1
    again = Diary()
    async with bench.following(again):
        await bench.write([letter("c")])
        await has(again, "c")
    assert (0, Progress(6)) in again.begun


@pytest.mark.asyncio
async def test_what_was_not_done_is_read_again_and_the_note_is_kept(kafka_broker: Broker) -> None:
    bench = await bench_on(kafka_broker)
    await bench.write([letter("a"), letter("b"), letter("c")])
    diary = Diary()
    diary.all_done = False
    note = "n" * effects.NOTE_BYTES
    async with bench.following(diary):
        await has(diary, "a", "b", "c")
        diary.done[0] = Progress(1, note)
        await bench.holds(Progress(1, note))
    again = Diary()
    async with bench.following(again):
        await has(again, "b", "c")
    assert (0, Progress(1, note)) in again.begun


@pytest.mark.asyncio
async def test_what_does_not_decode_is_a_dead_letter_and_the_rest_goes_on(
    kafka_broker: Broker,
) -> None:
    bench = await bench_on(kafka_broker)
    await bench.write([b"not json", letter("a")])
    diary = Diary()
    async with bench.following(diary):
        await has(diary, "a")
        await bench.holds(Progress(3))
    messages = await read_all(bench.bootstrap, bench.letters.full_name, (0, 1))
    (held,) = [DeadLettered.model_validate_json(m.value) for m in messages]
    assert (held.topic, held.partition, held.offset) == (bench.topic.name, 0, 0)
    assert messages[0].key == held.record_key().encode()


@pytest.mark.asyncio
async def test_an_unknown_version_stops_its_partition_and_no_other(kafka_broker: Broker) -> None:
    bench = await bench_on(kafka_broker)
    unknown = DeadLettered.TYPE.replace(".v1", ".v9")
    await bench.write([letter("a")])
    await bench.write([b"{}"], event_type=unknown)
    await bench.write([letter("behind it")])
    diary = Diary()
    async with bench.following(diary) as health:
        await has(diary, "a")
        await bench.write([letter("other")], partition=1)
        await has(diary, "a", "other")
        assert "partition_stopped" in health.faults[f"{bench.topic.name}/0"]
        await bench.holds(Progress(2), partition=1)
    held = await bench.held()
    assert held is not None
    assert held.offset == 1


@pytest.mark.asyncio
async def test_a_partition_that_stopped_is_told_by_who_has_it_and_by_nobody_else(
    kafka_broker: Broker,
) -> None:
    bench = await bench_on(kafka_broker)
    unknown = DeadLettered.TYPE.replace(".v1", ".v9")
    both = {f"{bench.topic.name}/{partition}" for partition in (0, 1)}
    for partition in (0, 1):
        await bench.write([b"{}"], partition=partition, event_type=unknown)
    async with bench.following(Diary()) as first:

        async def stopped() -> bool:
            return first.faults.keys() == both

        await eventually(stopped, "both partitions stopped")
        async with bench.following(Diary()) as second:

            async def shared() -> bool:
                told = [*first.faults, *second.faults]
                return sorted(told) == sorted(both) and bool(second.faults)

            await eventually(shared, "each partition told once")
        await eventually(stopped, "both told again by the one that stayed")


@pytest.mark.asyncio
async def test_nothing_is_taken_while_there_is_no_room(kafka_broker: Broker) -> None:
    bench = await bench_on(kafka_broker)
    diary = Diary()
    diary.is_full = True
    async with bench.following(diary) as health:

        async def ready() -> bool:
            return health.ready

        await eventually(ready, "a membership")
        await bench.write([letter("a")])
        await bench.write([letter("b")], partition=1)
        before = diary.asked_for_room

        async def looked() -> bool:
            return diary.asked_for_room >= before + 3

        await eventually(looked, "two looks for records")
        assert diary.taken == []
        diary.is_full = False

        async def both() -> bool:
            return sorted(diary.words()) == ["a", "b"]

        await eventually(both, "both records")


@pytest.mark.asyncio
async def test_records_that_retention_took_are_missed_loudly(kafka_broker: Broker) -> None:
    bench = await bench_on(kafka_broker)
    await bench.write([letter("a")])
    async with bench.following(Diary()):
        await bench.holds(Progress(2))
    await bench.write([letter("gone"), letter("b")])
    tp = TopicPartition(bench.topic.full_name, 0)
    async with opened(AIOKafkaAdminClient(bootstrap_servers=bench.bootstrap)) as admin:
        await admin.delete_records({tp: RecordsToDelete(before_offset=3)})
    diary = Diary()
    async with bench.following(diary):
        await has(diary, "b")
    assert [start for partition, start in diary.begun if partition == 0] == [
        Progress(2),
        Progress(3),
    ]


@pytest.mark.asyncio
async def test_a_second_member_waits_and_takes_over_where_the_first_left(
    kafka_broker: Broker,
) -> None:
    bench = await bench_on(kafka_broker)
    first, second = Diary(), Diary()
    async with bench.following(second) as standby:
        async with bench.following(first):

            async def shared() -> bool:
                return {p for p, _ in first.begun} | {p for p, _ in second.begun} == {0, 1}

            await eventually(shared, "both partitions begun")
            await bench.write([letter("a")])
            await bench.write([letter("b")], partition=1)

            async def taken() -> bool:
                return sorted(first.words() + second.words()) == ["a", "b"]

            await eventually(taken, "both records, once")
        await bench.write([letter("c")])
        await bench.write([letter("d")], partition=1)

        async def rest() -> bool:
            return set(second.words()) >= {"c", "d"}

        await eventually(rest, "the rest at the one that stayed")
        assert standby.faults == {}
    everything = first.words() + second.words()
    assert sorted(everything) == ["a", "b", "c", "d"]


@pytest.mark.asyncio
async def test_a_broker_that_is_killed_is_followed_again_and_nothing_done_is_repeated(
    own_broker: OwnBroker,
) -> None:
    broker = own_broker()
    bench = await bench_on(broker)
    diary = Diary()
    async with bench.following(diary) as health:
        await bench.write([letter("a")])
        await has(diary, "a")
        await bench.holds(Progress(2))
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)
        await bench.write([letter("b")])
        await has(diary, "a", "b")
        await bench.holds(Progress(4))

        async def green() -> bool:
            return not health.faults

        await eventually(green, "a green health")


@pytest.mark.asyncio
async def test_a_process_that_was_only_slow_does_not_move_the_position_back(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    bench = await bench_on(kafka_broker)
    log = tmp_path / "zombie.log"
    process = spawn(
        [
            *(sys.executable, "-c", ZOMBIE, bench.bootstrap),
            *(bench.topic.model_dump_json(), bench.letters.model_dump_json()),
            ":".join(sys.path),
        ],
        log=log,
        directory=tmp_path,
    )

    def says(word: str, times: int) -> Any:
        async def said() -> bool:
            assert process.poll() is None, log.read_text("utf-8")
            return log.read_text("utf-8").count(word) >= times

        return eventually(said, f"{word} from the process")

    try:
        await bench.write([letter("a")])
        await says("took 0", 1)
        await bench.holds(Progress(2))
        ended = log.read_text("utf-8").count("ended")
        process.send_signal(signal.SIGSTOP)
        diary = Diary()
        async with bench.following(diary):
            await bench.write([letter("b")])
            await has(diary, "b")
            await bench.holds(Progress(4))
            process.send_signal(signal.SIGCONT)
            await says("ended", ended + 1)
            await bench.write([letter("c")])

            async def moved() -> bool:
                held = await bench.held()
                assert held is not None
                assert held.offset >= 4
                return held.offset >= 6

            await eventually(moved, "the last position")
    finally:
        kill(process)
