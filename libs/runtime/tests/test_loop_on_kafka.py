"""The step loop on a real broker: outages, bad records, lost records, failing steps, big steps."""

import asyncio
import json
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.new_partitions import NewPartitions

from libs.runtime.tests.kafka_rig import INTERVAL_MS, Rig, Row, eventually
from walras_contracts.dead_letters import DeadLettered
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.running import Broker
from walras_runtime.clock import wall_ms
from walras_runtime.errors import InvariantBrokenError, StepFailedError
from walras_runtime.kafka import step_runner
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.wire import BarrierMark, barrier_headers, barrier_value
from walras_runtime.records import Barrier, Record

pytestmark = pytest.mark.broker

DAY_MS = 86_400_000
WRONG_SETTINGS = 2


def letter(text: str) -> bytes:
    """Return the payload of an event that this build decodes."""
    return DeadLettered(
        service="x", topic="t", partition=0, offset=0, code="c", reason=text, value_base64=""
    ).payload()


@pytest.mark.asyncio
async def test_records_written_before_the_service_ever_ran_are_read(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, b"e1"), (0, b"e2")])
        async with rig.running(), rig.follow() as out:
            await out.until(0)
        rig.check(await rig.committed(), spread=True)


@pytest.mark.asyncio
async def test_a_broker_that_is_killed_and_restarted_loses_and_doubles_nothing(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    broker = own_broker()
    async with Rig.opened(broker.bootstrap, tmp_path) as rig, rig.running() as echo:
        async with rig.follow() as out:
            await rig.feed_steps(10)
            await out.until(9)

        async def feed() -> None:
            async with rig.writer() as writer:
                for _ in range(40):
                    await rig.feed(writer)

        feeding = asyncio.create_task(feed())
        async with rig.follow() as out:
            await out.until(12)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.restart)
            await feeding
            await out.until(49)
        rig.check(await rig.committed(), spread=True)
        for partition in ("0", "1"):
            alarms = echo.metric("walras_position_disagreements_total", partition=partition)
            assert alarms == 0

        async def recovered() -> bool:
            return not echo.health.faults and not echo.health.waiting

        await eventually(recovered, "health to be green again")


@pytest.mark.asyncio
async def test_an_undecodable_value_is_a_dead_letter_of_its_step_while_the_rest_goes_on(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    poison = bytes.fromhex("00ff7b")
    rows: list[Row] = [(0, letter(str(i))) for i in range(5)]
    rows[2] = (0, poison)
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        async with rig.writer() as writer:
            await rig.feed(writer, [], event_type=DeadLettered.TYPE)
            await rig.feed(writer, rows, event_type=DeadLettered.TYPE)
        # A first run decides only what lies before the poison, having read the poison too.
        first = rig.start_echo(spread=True, ECHO_RAW="0", ECHO_FAULT="kill@7@0")
        await first.exit_code()
        async with rig.running(raw=False) as echo, rig.follow() as out:
            await out.until(1)
            topic = rig.topics["in"].full_name

            async def counted() -> bool:
                labels = {"topic": "in", "error": "undecodable"}
                return echo.metric("walras_dead_letter_total", **labels) == 1

            await eventually(counted, "the dead letter in the metrics")
        found = [
            DeadLettered.model_validate_json(m.value)
            for m in await read_all(rig.bootstrap, rig.topics["dead_letter"].full_name, [0, 1])
        ]
        assert len(found) == 1
        poisoned = [m for m in await read_all(rig.bootstrap, topic, [0]) if m.value == poison]
        assert (found[0].topic, found[0].partition) == ("in", 0)
        assert found[0].offset == poisoned[0].offset
        assert found[0].code == "undecodable"
        assert found[0].value_base64 == "AP97"
        rig.fed = [row for row in rig.fed if row[1] != poison]
        rig.check(await rig.committed(), spread=True)


@pytest.mark.asyncio
async def test_an_unknown_version_stops_its_partition_and_nothing_is_decided_past_it(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, letter("a"))], event_type=DeadLettered.TYPE)
            await rig.feed(writer, [(0, letter("b"))], event_type="walras.dead_lettered.v9")
            await rig.feed(writer, [(1, letter("c"))], event_type=DeadLettered.TYPE)
        async with rig.running(raw=False) as echo, rig.follow() as out:
            fault = await echo.red()
            assert "partition_stopped" in fault
            assert "walras.dead_lettered.v9" in fault
            assert "in/0@2" in fault
            await out.until(2, [1])
            assert out.last_barrier(0) == 0
            assert echo.task is not None
            assert not echo.task.done()
            assert echo.health.waiting == {f"{rig.service}/0"}
        assert out.last_barrier(0) == 0


@pytest.mark.asyncio
async def test_records_deleted_before_they_were_read_are_an_offset_gap_with_its_numbers(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        rows = [(0, b"%d" % i) for i in range(29)]
        async with rig.writer() as writer:
            await rig.feed(writer, rows)  # offsets 0..28, the barrier is 29
            async with rig.running():
                await out.until(0)
            await rig.feed(writer, rows)
        tp = TopicPartition(rig.topics["in"].full_name, 0)
        admin = AIOKafkaAdminClient(bootstrap_servers=rig.bootstrap)
        await admin.start()
        await admin.delete_records({tp: RecordsToDelete(40)})
        await admin.close()
        async with rig.running() as echo:
            fault = await echo.red()
        assert f"offset_gap: never read and gone from the log: {tp.topic}/0: 30..39" in fault
        await out.poll()
        assert out.last_barrier(0) == 0


@pytest.mark.asyncio
async def test_a_barrier_older_than_the_compaction_lag_of_its_topic_is_an_offset_gap(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        rig.topics["in"] = rig.topics["in"].model_copy(update={"cleanup": "compact"})
        await rig.feed_steps(1)
        async with rig.running():
            await out.until(0)
        monkeypatch.setattr(step_runner, "wall_ms", lambda: wall_ms() + 2 * DAY_MS)
        # A position of two days ago is no gap: all was stopped, and nothing lies behind it.
        async with rig.running() as echo:

            async def restored() -> bool:
                return echo.health.ready and not echo.health.waiting

            await eventually(restored, "the stage to be restored")
            assert not echo.health.faults
            await rig.feed_steps(1)
            assert "offset_gap" in await echo.red()
        await out.poll()
        assert out.last_barrier(0) == 0


@pytest.mark.asyncio
async def test_a_wrong_partition_count_ends_the_process_with_2_and_names_the_topic(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        name = rig.topics["out"].full_name
        admin = AIOKafkaAdminClient(bootstrap_servers=rig.bootstrap)
        await admin.start()
        await admin.create_partitions({name: NewPartitions(3)})
        await admin.close()
        echo = rig.start_echo()
        assert await echo.exit_code() == WRONG_SETTINGS, echo.text()
        assert f"{name} has 3 partitions, not 2" in echo.text()


@pytest.mark.asyncio
async def test_a_step_of_more_than_a_batch_loses_no_record(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        rows = [(0, b"%05d" % i + b"x" * 250) for i in range(10_000)]
        async with rig.writer() as writer:
            await rig.feed(writer, rows)
        async with rig.running(), rig.follow() as out:
            await out.until(0)
        seen = await rig.committed()
        assert sum(len(r.value or b"") for r in seen[0] if isinstance(r, Record)) > 2_500_000
        rig.check(seen, spread=True)


@pytest.mark.asyncio
async def test_a_record_larger_than_a_batch_is_refused_and_counted_as_a_failure_of_the_step(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, b"big")])
        error = await rig.failure()
        assert isinstance(error, ExceptionGroup)
        assert isinstance(error.exceptions[0], InvariantBrokenError)
        assert "a record of 1200" in str(error.exceptions[0])
        assert (await rig.claim()).failures == {"": 1}
        assert (await rig.committed())[0] == []


@pytest.mark.asyncio
async def test_a_step_that_failed_three_times_is_told_so_on_the_next_start(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        async with rig.writer() as writer:
            await rig.feed(writer)
            await rig.feed(writer, [(0, b"crash"), (0, b"after")])
        for failures in (1, 2, 3):
            error = await rig.failure(spread=False)
            assert isinstance(error, StepFailedError)
            told = {"crash": failures - 1} if failures > 1 else {}
            assert str(error) == f"failed {told}"
            claim = await rig.claim()
            assert (claim.failed_barrier, claim.failures) == (1, {"crash": failures})
        async with rig.running(spread=False, election_session_ms=1000), rig.follow() as out:
            await out.until(1)
        rig.check(await rig.committed(), spread=False)


@pytest.mark.asyncio
async def test_a_partition_that_stays_behind_is_not_waited_for_when_live_and_is_read_later(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        producer = make_producer(rig.bootstrap)
        await producer.start()

        async def write(partition: int, number: int) -> None:
            barrier = Barrier(number, number * INTERVAL_MS)
            value = b"%d-%d" % (partition, number)
            rows = [
                (b"k", value, [("ce_type", b"t.v1")]),
                (barrier.key().encode(), barrier_value(barrier), barrier_headers(1)),
            ]
            name = rig.topics["in"].full_name
            await asyncio.gather(*await send_rows(producer, {(name, partition): rows}))

        async with rig.running(
            spread=False, mode="live", alignment_timeout_ms=300, election_session_ms=1000
        ):
            await write(0, 0)
            await out.until(0)
            await write(0, 1)
            await out.until(1)
            for number in (0, 1, 2):
                await write(1, number)
            await write(0, 2)
            await out.until(2)
        await producer.stop()
        seen = await rig.committed()
        bodies = [i.value for items in seen.values() for i in items if isinstance(i, Record)]
        assert sorted(b.partition(b":")[2] for b in bodies if b) == [
            *(b"0-0", b"0-1", b"0-2"),
            *(b"1-0", b"1-1", b"1-2"),
        ]
        marks = [i.barrier.number for i in seen[1] if isinstance(i, BarrierMark)]
        assert marks == [0, 1, 2]


@pytest.mark.asyncio
async def test_the_groups_offsets_follow_for_lag_monitors(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        async with rig.running():
            await out.until(0)
        admin = AIOKafkaAdminClient(bootstrap_servers=rig.bootstrap)
        await admin.start()
        held = await admin.list_consumer_group_offsets(f"walras.{rig.service}-1")
        await admin.close()
        assert {tp.partition: meta.offset for tp, meta in held.items()} == {1: 4}


@pytest.mark.asyncio
async def test_what_only_looks_like_a_barrier_is_a_record_for_the_stage_to_judge(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        forged = json.dumps({"barrier": "none"}).encode()
        producer = make_producer(rig.bootstrap)
        await producer.start()
        rows = [(Barrier(0, 0).key().encode(), forged, barrier_headers(1))]
        await asyncio.gather(*await send_rows(producer, {(rig.topics["in"].full_name, 0): rows}))
        await producer.stop()
        rig.fed.append((0, forged))
        await rig.feed_steps(1)
        async with rig.running():
            await out.until(0)
        rig.check(await rig.committed(), spread=True)
