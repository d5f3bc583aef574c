"""A local table is a mapping that writes no changelog; the app reads committed records only."""

import asyncio
from pathlib import Path
from typing import Any

import faust

from walras_runtime.faust.app_factory import FaustOptions, create_app
from walras_runtime.faust.local_table import local_table
from walras_runtime.faust.read_committed import ReadCommittedConsumer, ReadCommittedThread


def app_in(directory: Path, incarnation: str = "one") -> faust.App:
    return create_app(
        FaustOptions(
            name="test",
            incarnation=incarnation,
            bootstrap="127.0.0.1:1,127.0.0.1:2",
            directory=directory,
        )
    )


async def level_of(consumer: Any) -> str:
    """Isolation level of the client that a Faust consumer would start; nothing is left open."""
    client = consumer._thread._create_consumer(asyncio.get_running_loop())
    await client.stop()
    consumer._thread.thread_loop.close()
    level: str = client._isolation_level
    return level


def test_a_local_table_is_written_outside_of_a_stream_and_has_no_changelog(tmp_path: Path) -> None:
    async def run() -> None:
        app = app_in(tmp_path)
        table = local_table(app, "cycles")
        table["gpu", 1] = {"price": 1}
        table["gpu", 1] = {"price": 2}
        table["gpu", 2] = {"price": 3}
        assert dict(table.items()) == {("gpu", 1): {"price": 2}, ("gpu", 2): {"price": 3}}
        assert sorted(table) == [("gpu", 1), ("gpu", 2)]
        assert table.pop(("gpu", 2), None) == {"price": 3}
        assert table.pop(("gpu", 2), None) is None
        del table["gpu", 1]
        assert len(table) == 0
        table["gpu", 3] = {}
        table.clear()
        assert table.get(("gpu", 3)) is None
        assert app.tables.changelog_topics == set()

    asyncio.run(run())


def test_the_consumer_reads_committed_records_and_fausts_own_does_not(tmp_path: Path) -> None:
    async def run() -> None:
        consumer = app_in(tmp_path).consumer
        assert isinstance(consumer, ReadCommittedConsumer)
        assert isinstance(consumer._thread, ReadCommittedThread)
        assert await level_of(consumer) == "read_committed"
        stock = faust.App("stock", broker="kafka://127.0.0.1:1", datadir=str(tmp_path))
        assert await level_of(stock.consumer) == "read_uncommitted"

    asyncio.run(run())


def test_every_process_has_a_group_of_its_own_and_starts_at_the_beginning(tmp_path: Path) -> None:
    async def run() -> None:
        one, other = app_in(tmp_path, "one"), app_in(tmp_path, "other")
        assert one.conf.id != other.conf.id
        assert one.conf.consumer_auto_offset_reset == "earliest"
        assert not one.conf.topic_allow_declare

    asyncio.run(run())
