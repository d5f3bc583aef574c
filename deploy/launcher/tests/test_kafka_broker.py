import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from walras_launcher.errors import LauncherError
from walras_launcher.kafka import KafkaBroker, start_kafka
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.running import Broker
from walras_launcher.wire import kafka_answers, kafka_brokers, split_address

pytestmark = pytest.mark.broker


async def _write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(topic, 1, 1)])
        assert [error for _, error, *_ in answer.topic_errors] == [0]
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def _read(bootstrap: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while len(values) < end:
            values.append((await asyncio.wait_for(consumer.getone(), 30)).value)
        return values
    finally:
        await consumer.stop()


def test_a_started_broker_names_itself_and_stop_leaves_no_process_no_port_and_no_directory(
    own_broker: OwnBroker, gone: Callable[[int], bool]
) -> None:
    broker = own_broker()
    pid, directory = broker.pid, broker.directory
    host, port = split_address(broker.bootstrap)
    assert kafka_brokers(host, port) == 1
    assert broker.running
    assert broker.describe().startswith("Apache Kafka 4.1.2 from Maven jars, Java ")
    assert os.getpgid(pid) == pid != os.getpgid(0)

    broker.stop()

    assert gone(pid)
    assert not directory.exists()
    assert not kafka_answers(broker.bootstrap)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    with pytest.raises(LauncherError) as refused:
        broker.restart()
    assert refused.value.code == "stopped_for_good"
    with pytest.raises(LauncherError) as absent:
        _ = broker.pid
    assert absent.value.code == "not_running"
    broker.stop()


def test_acknowledged_records_survive_a_kill_and_the_restart_keeps_directory_and_port(
    own_broker: OwnBroker, gone: Callable[[int], bool]
) -> None:
    broker = own_broker()
    before, place, directory = broker.pid, broker.bootstrap, broker.directory
    values = [b"value-%d" % number for number in range(50)]
    asyncio.run(_write(place, "kept", values))

    broker.kill()
    assert gone(before)
    assert not broker.running
    assert not kafka_answers(place)
    broker.restart()

    assert broker.pid != before
    assert (broker.bootstrap, broker.directory) == (place, directory)
    assert asyncio.run(_read(place, "kept")) == values


def test_a_port_is_given_to_nobody_while_its_broker_is_down(own_broker: OwnBroker) -> None:
    broker = own_broker()
    host, port = split_address(broker.bootstrap)
    broker.kill()
    for _ in range(2000):
        # Without the reservation such a client may be given this very port and find itself.
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect((host, port))
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((host, port))
    broker.restart()
    assert kafka_answers(broker.bootstrap)


def test_a_broker_killed_from_outside_is_noticed_and_can_be_restarted(
    own_broker: OwnBroker, eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    broker = own_broker()
    os.kill(broker.pid, signal.SIGKILL)
    assert eventually(lambda: not broker.running)
    broker.restart()
    assert kafka_answers(broker.bootstrap)


def test_two_brokers_live_side_by_side_and_share_nothing(own_broker: OwnBroker) -> None:
    first = own_broker()
    second = own_broker(jit="full", heap="512m")
    assert first.bootstrap != second.bootstrap
    assert first.directory != second.directory
    asyncio.run(_write(first.bootstrap, "topic", [b"first"]))
    asyncio.run(_write(second.bootstrap, "topic", [b"second"]))
    first.stop()
    assert asyncio.run(_read(second.bootstrap, "topic")) == [b"second"]


def test_a_given_directory_is_kept_and_continued_by_the_next_broker(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    directory = tmp_path / "data of the broker"
    first = own_broker(directory=directory)
    asyncio.run(_write(first.bootstrap, "kept", [b"one"]))
    first.stop()
    assert directory.is_dir()
    second = own_broker(directory=directory)
    assert asyncio.run(_read(second.bootstrap, "kept")) == [b"one"]


def test_extra_properties_win_over_the_shipped_ones(own_broker: OwnBroker) -> None:
    broker = own_broker(extra_properties={"auto.create.topics.enable": "true"})

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        try:
            await producer.send_and_wait("made-by-writing", b"x")
        finally:
            await producer.stop()

    asyncio.run(produce())
    assert asyncio.run(_read(broker.bootstrap, "made-by-writing")) == [b"x"]


def test_a_setting_that_kafka_refuses_ends_with_the_log_in_the_error(
    own_broker: OwnBroker,
) -> None:
    own_broker().stop()  # skips or fails the leg before the broken start is judged
    with pytest.raises(LauncherError) as refused:
        start_kafka(extra_properties={"num.io.threads": "many"})
    assert refused.value.code == "exited_early"
    assert "num.io.threads" in refused.value.message


def test_a_broker_started_in_a_thread_that_ends_lives_on(own_broker: OwnBroker) -> None:
    started: list[KafkaBroker] = []
    thread = threading.Thread(target=lambda: started.append(own_broker()))
    thread.start()
    thread.join()
    # The parent-death signal would have come at the end of the thread; a round trip shows none did.
    asyncio.run(_write(started[0].bootstrap, "alive", [b"yes"]))
    assert started[0].running


def test_the_session_broker_comes_with_the_reason_of_every_rung(kafka_broker: Broker) -> None:
    assert kafka_answers(kafka_broker.bootstrap)
    taken = [rung for rung in kafka_broker.rungs if rung.taken]
    assert [rung.reason for rung in taken] == [kafka_broker.describe()]
    assert kafka_broker.rungs[-1] is taken[0]
    assert all(rung.reason for rung in kafka_broker.rungs)
