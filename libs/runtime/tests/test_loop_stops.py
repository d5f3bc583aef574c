"""What stops a stage red on a real broker, and what does not: barriers, types, headers, crashes."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka.producer import message_accumulator
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as PythonBuilder

from libs.runtime.tests.kafka_rig import INTERVAL_MS, Rig, eventually
from walras_contracts.dead_letters import DeadLettered
from walras_launcher.running import Broker
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.kafka.claims import failures_key
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.wire import barrier_headers, barrier_value
from walras_runtime.records import Barrier, Record

pytestmark = pytest.mark.broker

LETTER = DeadLettered(
    service="x", topic="t", partition=0, offset=0, code="c", reason="", value_base64=""
).payload()


def mark(number: int, epoch: int = 1, *, key: int | None = None, time_ms: int | None = None) -> Row:
    barrier = Barrier(number, number * INTERVAL_MS if time_ms is None else time_ms)
    name = Barrier(number if key is None else key, 0).key()
    return (name.encode(), barrier_value(barrier), barrier_headers(epoch))


async def write(rig: Rig, rows: Sequence[Row], partition: int = 0) -> None:
    """Write to the input as anybody may who can write there."""
    producer = make_producer(rig.bootstrap)
    await producer.start()
    where = {(rig.topics["in"].full_name, partition): rows}
    await asyncio.gather(*await send_rows(producer, where))
    await producer.stop()


async def letters(rig: Rig) -> list[DeadLettered]:
    messages = await read_all(rig.bootstrap, rig.topics["dead_letter"].full_name, [0, 1])
    return [DeadLettered.model_validate_json(m.value) for m in messages]


@pytest.mark.asyncio
async def test_forged_barriers_and_foreign_types_are_dead_letters_while_the_rest_goes_on(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        key, _, headers = mark(1)
        forged: list[Row] = [
            (key, b'{"barrier":1e999,"market_time_ms":0}', headers),
            (key, b'{"barrier":1,"market_time_ms":Infinity}', headers),
            (key, b'{"barrier":true,"market_time_ms":0}', headers),
            (key, b'{"barrier":-1,"market_time_ms":0}', headers),
            mark(1, key=2),
            (b"k", LETTER, []),
            (b"k", LETTER, [("ce_type", b"com.example.thing")]),
            (b"k", LETTER, [("ce_type", b"walras.job.queued.v1")]),
            (b"k", None, [("ce_type", b"walras.job.queued.v1")]),
        ]
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, LETTER), (1, LETTER)], event_type=DeadLettered.TYPE)
        await write(rig, forged)
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, LETTER)], event_type=DeadLettered.TYPE)
        async with rig.running(raw=False) as echo:
            await out.until(1)
            assert not echo.health.faults
        found = await letters(rig)
        assert sorted(letter.offset for letter in found) == list(range(2, 2 + len(forged)))
        assert {letter.partition for letter in found} == {0}
        rig.check(await rig.committed(), spread=True)


@pytest.mark.asyncio
async def test_a_hole_in_the_barriers_stops_the_stage_red_and_the_missing_one_lets_it_go_on(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(2)
        await write(rig, [mark(7)])
        async with rig.running() as echo:
            fault = await echo.red()
            assert f"{rig.service}/0: barrier_fault: in/0@8: barrier 7 follows 1" in fault
            await out.until(1)
            assert echo.task is not None
            assert not echo.task.done()
        # It was a stray one: the right one followed, and what was decided is as if it had not been.
        await rig.feed_steps(2)
        async with rig.running() as echo:
            await out.until(3)
            assert not echo.health.faults
        rig.check(await rig.committed(), spread=True)


@pytest.mark.asyncio
async def test_partitions_that_disagree_on_a_barrier_stop_the_stage_red(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        await write(rig, [mark(1, time_ms=1)], partition=0)
        await write(rig, [mark(1, time_ms=2)], partition=1)
        async with rig.running(spread=False, election_session_ms=1000) as echo:
            fault = await echo.red()
            assert "barrier_fault: in/1@4: barrier 1 is" in fault
            await out.until(0)
        await out.poll()
        assert out.last_barrier(0) == 0


@pytest.mark.asyncio
async def test_barriers_of_an_older_epoch_are_not_taken_for_the_newer_writers(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        for partition in (0, 1):
            rows = [mark(0, epoch=2), mark(1, epoch=1), (b"k", b"late", [("ce_type", b"t.v1")])]
            await write(rig, [*rows, mark(1, epoch=2)], partition)
            rig.fed.append((partition, b"late"))
        rig.next_barrier = 2
        async with rig.running() as echo:
            await out.until(1)
            assert not echo.health.faults
        seen = await rig.committed()
        rig.check(seen, spread=True)
        # The older writer's mark did not end step 1: what lies behind it belongs to that step too.
        assert [isinstance(item, Record) for item in seen[0]] == [False, True, False]


@pytest.mark.asyncio
async def test_a_header_name_that_is_not_text_does_not_stop_the_reader(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client's own encoder, but for its C twin, which looks at the type of a name first.
    monkeypatch.setattr(message_accumulator, "DefaultRecordBatchBuilder", PythonBuilder)
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, LETTER)], event_type=DeadLettered.TYPE)
        broken = _Undecodable("ce_type")
        kind = DeadLettered.TYPE.encode()
        await write(
            rig,
            [
                (b"k", LETTER, [("ce_type", kind)]),
                (b"k", LETTER, [(broken, kind)]),
                (b"k", LETTER, [("ce_type", kind), (broken, b"")]),
            ],
        )
        rig.fed += [(0, LETTER)] * 2
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, LETTER)], event_type=DeadLettered.TYPE)
        async with rig.running(raw=False) as echo:
            await out.until(1)
            assert not echo.health.faults
        assert [letter.offset for letter in await letters(rig)] == [3]
        rig.check(await rig.committed(), spread=True)


class _Undecodable(str):
    """A header name that goes onto the wire as bytes that are not UTF-8."""

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        del encoding, errors
        return b"\xff\xfe"


@pytest.mark.asyncio
async def test_a_step_that_fails_three_times_for_no_named_subject_stops_the_stage_red(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        async with rig.writer() as writer:
            await rig.feed(writer, [(0, b"big")])
        for failures in (1, 2):
            error = await rig.failure(spread=False)
            assert isinstance(error, InvariantBrokenError)
            assert (await rig.claim()).failures == {"": failures}
        for failures in (3, 4):  # the fourth: an operator started it again with the same build
            async with rig.running(spread=False, election_session_ms=1000) as echo:
                fault = await echo.red()
                assert f"stage_broken: step 1 failed {failures} times: InvariantBroken" in fault
                assert echo.task is not None
                assert not echo.task.done()
            assert (await rig.claim()).failures == {"": failures}
        await out.until(0)
        assert out.last_barrier(0) == 0
        key = failures_key(rig.service, 0)
        claims = await read_all(rig.bootstrap, rig.topics["claims"].full_name, [0])
        told = [json.loads(m.value)["error"] for m in claims if m.key == key]
        assert len(told) == 4
        assert all("a record of 1200" in error for error in told)


@pytest.mark.asyncio
async def test_a_state_that_this_build_cannot_read_stops_the_stage_red(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        await rig.feed_steps(1)
        position = {
            "step": 0,
            "market_time_ms": 0,
            "inputs": {"in/0": [4, 0], "in/1": [4, 0]},
            "epoch": 1,
            "mirrored": [],
        }
        producer = make_producer(rig.bootstrap)
        await producer.start()
        state = rig.topics[f"state.{rig.service}"].full_name
        value = json.dumps(position).encode()
        await producer.send_and_wait(state, value, key=b"~position", partition=0)
        await producer.stop()
        rig.topics["in"] = rig.topics["in"].model_copy(update={"cleanup": "compact"})
        async with rig.running(spread=False, lagged=True, election_session_ms=1000) as echo:
            fault = await echo.red()
            assert "state_unreadable" in fault
            assert "did not mirror in" in fault

            async def waits() -> bool:
                return echo.health.waiting == {f"{rig.service}/0"}

            await eventually(waits, "the stage to wait")
