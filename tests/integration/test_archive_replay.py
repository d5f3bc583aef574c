"""`walras archive` and `walras replay` on a real broker: whole committed cycles, all the same.

The log is written as the clearing service writes it: one transaction a step, its barrier last.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from walras.archive import Archive, RecordedCycle
from walras.archive.testing import CycleMaker
from walras_clearing import Market
from walras_clearing.testing import MEDIUM, draw_market
from walras_contracts.market import CycleFramed, CycleRecorded
from walras_contracts.topics import load_topics
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

TOPICS = {name: load_topics()[name] for name in (CycleRecorded.TOPIC, CycleFramed.TOPIC)}
MARKETS = ("a100", "h100")
SEED = 2026


def steps_of(count: int) -> list[list[RecordedCycle]]:
    """Cycles of both markets, step by step; a key frame in the first and in every fifth."""
    draw = Random(SEED)
    makers = [CycleMaker(name, rows_a_part=4) for name in MARKETS]
    shape = replace(MEDIUM, teams=12, jobs=4)
    return [
        [maker.cleared(draw_market(draw.randint, shape), key=n % 5 == 0) for maker in makers]
        for n in range(count)
    ]


def rows_of(
    number: int, cycles: Sequence[RecordedCycle], *, barrier: bool = True
) -> Mapping[tuple[str, int], Sequence[Row]]:
    rows: dict[tuple[str, int], list[Row]] = {(t.full_name, 0): [] for t in TOPICS.values()}
    for cycle in cycles:
        for event in cycle.events():
            headers = event_headers(f"clearing/{number}", b"clearing", event.TYPE)
            place = (TOPICS[event.TOPIC].full_name, 0)
            rows[place].append((event.record_key().encode(), event.payload(), headers))
    mark = Barrier(number, number * 30_000)
    for held in rows.values() if barrier else ():
        held.append((mark.key().encode(), barrier_value(mark), barrier_headers(1)))
    return rows


async def send(
    producer: AIOKafkaProducer, number: int, cycles: Sequence[RecordedCycle], **options: Any
) -> None:
    for future in await send_rows(producer, rows_of(number, cycles, **options)):
        await future


async def walras(*words: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and its document."""
    command = [sys.executable, "-m", "walras", *words, "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=120
    )
    print(done.args, done.returncode, done.stderr)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def stored(root: Path) -> list[RecordedCycle]:
    archive = Archive(root)
    return list(archive.cycles(archive.markets(), lambda *_: None))


def in_order(steps: Sequence[Sequence[RecordedCycle]]) -> list[RecordedCycle]:
    return [step[index] for index in range(len(MARKETS)) for step in steps]


async def archives_what_is_committed(bootstrap: str, root: Path) -> None:
    steps = steps_of(8)
    await create_topics(bootstrap, TOPICS)
    producer = make_producer(
        bootstrap, transactional_id="clearing/0", transaction_timeout_ms=60_000
    )
    await producer.start()
    try:
        for number, cycles in enumerate(steps[:6]):
            # What was aborted, here a step that differs in its decision, is nobody's record.
            await producer.begin_transaction()
            await send(producer, number, steps[(number + 3) % 6])
            await producer.abort_transaction()
            await producer.begin_transaction()
            await send(producer, number, cycles)
            await producer.commit_transaction()
        await producer.begin_transaction()
        await send(producer, 6, steps[6])
        words = ("archive", "--bootstrap", bootstrap, "--out", str(root))
        code, document = await walras(*words)
        assert (code, document["cycles"]) == (0, {"a100": 6, "h100": 6})
        assert stored(root) == in_order(steps[:6])
        await producer.commit_transaction()
        # Committed, but without its barrier: a step of which the end is not known.
        await producer.begin_transaction()
        await send(producer, 7, steps[7], barrier=False)
        await producer.commit_transaction()
        code, document = await walras(*words)
        assert (code, document["last_cycle"], document["missing"]) == (0, 6, [])
        assert document["events_added"] == sum(len(cycle.events()) for cycle in steps[6])
        assert stored(root) == in_order(steps[:7])
        code, document = await walras(*words)
        assert (code, document["events_added"], document["files_written"]) == (0, 0, 0)
        await send_and_replay(bootstrap, root)
    finally:
        await producer.stop()


async def send_and_replay(bootstrap: str, root: Path) -> None:
    """Replay the log and the archive: both the same, and the same report."""
    found = []
    for source in (f"kafka:{bootstrap}", str(root)):
        words = ("replay", source, "--policy", "strict_order", "--impact-every", "3")
        code, document = await walras(*words)
        assert (code, document["replayed"], document["differences"]) == (0, 14, [])
        found.append({**document, "source": ""})
    assert found[0] == found[1]
    code, document = await walras("replay", f"kafka:{bootstrap}", "--market", "h100", "--to", "2")
    assert (code, document["replayed"]) == (0, 3)


def test_committed_cycles_are_archived_and_replay_to_the_same(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    asyncio.run(archives_what_is_committed(own_broker().bootstrap, tmp_path / "archive"))


async def finds_what_is_wrong(bootstrap: str) -> None:
    steps = steps_of(4)
    await create_topics(bootstrap, TOPICS)
    head = steps[2][0].head
    assert head is not None
    steps[2][0] = replace(steps[2][0], head=head.model_copy(update={"reference_price_micro": 1}))
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        for number, cycles in enumerate(steps[:3]):
            await send(producer, number, cycles)
        code, document = await walras("replay", f"kafka:{bootstrap}")
        (found,) = document["differences"]
        assert (code, found["market"], found["cycle"]) == (1, "a100", 2)
        await send(producer, 3, [replace(steps[3][0], frames=()), steps[3][1]])
        code, document = await walras("replay", f"kafka:{bootstrap}")
        assert (code, "market a100, cycle 3: part 0 of" in document["error"]) == (2, True)
    finally:
        await producer.stop()


def test_a_wrong_record_and_a_missing_frame_are_found(own_broker: OwnBroker) -> None:
    asyncio.run(finds_what_is_wrong(own_broker().bootstrap))


async def cut(bootstrap: str, offsets: Mapping[str, int]) -> None:
    """Take away what lies before an offset of each topic, as retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        wanted = {
            TopicPartition(TOPICS[name].full_name, 0): RecordsToDelete(at)
            for name, at in offsets.items()
        }
        await admin.delete_records(wanted)
    finally:
        await admin.close()


async def goes_on_behind_what_retention_cut(bootstrap: str, root: Path) -> None:
    draw, shape = Random(SEED), replace(MEDIUM, teams=12, jobs=4)
    makers = [CycleMaker(name, rows_a_part=4) for name in MARKETS]
    # A market that is halted has a whole cycle without a frame: it says nothing about the frames.
    steps = [
        [
            maker.halted(Market(0, (), ()))
            if (n, maker.market) == (0, "a100")
            else maker.cleared(draw_market(draw.randint, shape), key=n == 3)
            for maker in makers
        ]
        for n in range(6)
    ]
    await create_topics(bootstrap, TOPICS)
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        for number, cycles in enumerate(steps):
            await send(producer, number, cycles)
    finally:
        await producer.stop()
    # Of the records the first is gone, of the frames all of the first step and a part of the next.
    first = sum(len(cycle.frames) for cycle in steps[0]) + 1
    assert len(steps[1][0].frames) > 1
    await cut(bootstrap, {CycleFramed.TOPIC: first + 1})
    for records, cut_cycles in ((0, 2), (1, 2)):
        await cut(bootstrap, {CycleRecorded.TOPIC: records})
        words = ("archive", "--bootstrap", bootstrap, "--out", str(root / str(records)))
        code, document = await walras(*words)
        assert (code, document["missing"]) == (0, [])
        assert document["cut_by_retention"] == cut_cycles
        code, document = await walras("replay", f"kafka:{bootstrap}")
        assert (code, document["gaps"], document["differences"]) == (0, [], [])
        assert [document["markets"][name]["first_cycle"] for name in MARKETS] == [3, 3]


def test_what_retention_has_taken_is_counted_and_the_rest_is_replayed(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    asyncio.run(goes_on_behind_what_retention_cut(own_broker().bootstrap, tmp_path))
