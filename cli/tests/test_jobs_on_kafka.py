"""The commands about jobs and nodes on a real broker: committed records, answers, its death."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from cli.tests.jobs_events import (
    NOW_MS,
    changed,
    health,
    lease,
    node,
    node_drain,
    observed,
    pool,
    prices,
    queued,
    running,
    session,
    status,
    supply,
)
from walras.jobs_log import Fault, Item, JobsLogError, Watch
from walras.jobs_log.kafka_log import KafkaLog, open_log
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import (
    DemandRejected,
    JobCancelled,
    JobLimitChanged,
    JobQueued,
    JobSubmitted,
)
from walras_contracts.drains import DrainOrdered
from walras_contracts.edge import decode_edge
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import types_on
from walras_contracts.rejections import Rejection, RejectionCode
from walras_contracts.topics import load_topics
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import (
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.records import Barrier, Record

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

NAMES = (
    *("queue", "job.status", "leases", "drain.sessions", "accounts", "supply", "prices", "demand"),
    *("lease.status", "nodes", "inventory", "node.health", "drain.orders", "demand.rejected"),
)
TOPICS = {name: load_topics()[name] for name in NAMES}
Rows = dict[tuple[str, int], list[Row]]


def rows(events: Sequence[Event], barrier: Barrier | None) -> Rows:
    found: Rows = {}
    for event in events:
        topic = TOPICS[event.TOPIC]
        place = (topic.full_name, partition_of(event.partition_key(), topic.partitions))
        headers = event_headers(f"x-{event.record_key()}", b"test", event.TYPE)
        found.setdefault(place, []).append((event.record_key().encode(), event.payload(), headers))
    for topic in TOPICS.values():
        if barrier is not None and topic.barriers != "none":
            key = barrier.key(cyclic=topic.cleanup == "compact").encode()
            row = (key, barrier_value(barrier), barrier_headers(1))
            for partition in range(topic.partitions):
                found.setdefault((topic.full_name, partition), []).append(row)
    return found


class Market:
    """Writes for all services, in transactions, step after step."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._number = -1

    def step(self, *events: Event, commit: bool = True) -> None:
        """Write events and, where they are committed, a barrier."""
        self._number += commit
        barrier = Barrier(self._number, NOW_MS + 5000 * self._number) if commit else None
        asyncio.run(self._write(rows(events, barrier), commit=commit))

    def junk(self, topic: str, kind: str) -> None:
        """Write a record that is no event."""
        row = (b"n-1", b"{", event_headers("x", b"test", kind))
        asyncio.run(self._write({(TOPICS[topic].full_name, 0): [row]}, commit=True))

    def refuse(self, refusal: DemandRejected) -> None:
        """Write a refusal where intake writes it."""
        headers = event_headers("x", b"test", refusal.TYPE)
        row = (refusal.record_key().encode(), refusal.payload(), headers)
        place = (TOPICS["demand.rejected"].full_name, refusal.partition)
        asyncio.run(self._write({place: [row]}, commit=True))

    def asked(self, topic: str, count: int) -> list[Record]:
        """Wait until a topic that commands write to holds so many events; return them."""
        found: list[Record] = []
        for _ in range(600):
            found = asyncio.run(self._events(topic))
            if len(found) >= count:
                return found
        raise AssertionError(f"{topic} holds {len(found)} events, not {count}")

    async def _events(self, topic: str) -> list[Record]:
        name, partitions = TOPICS[topic].full_name, range(TOPICS[topic].partitions)
        items = [parse_message(m, topic) for m in await read_all(self.bootstrap, name, partitions)]
        return [item for item in items if isinstance(item, Record) and item.source != "test"]

    async def _write(self, given: Rows, *, commit: bool) -> None:
        producer: AIOKafkaProducer = make_producer(self.bootstrap, transactional_id="test")
        await producer.start()
        try:
            await producer.begin_transaction()
            for future in await send_rows(producer, given):
                await future
            await (producer.commit_transaction() if commit else producer.abort_transaction())
        finally:
            await producer.stop()


WALRAS = """
import signal, sys
from walras.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "walras"
main(sys.argv[1:])
"""
"""Ctrl-C counts, also where these tests run behind an ``&`` and their processes ignore it."""


class Walras:
    """A command under way."""

    def __init__(self, bootstrap: str, *words: str) -> None:
        command = [sys.executable, "-c", WALRAS, *words, "--bootstrap", bootstrap, "--json"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def interrupt(self) -> None:
        """Do as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def result(self) -> tuple[int, dict[str, Any], str]:
        """Wait for its end; return exit code, document and what it told."""
        try:
            out, told = self._process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            print(self._process.args, "does not end:", *self._process.communicate())
            raise
        print(self._process.args, self._process.returncode, told)
        return self._process.returncode, json.loads(out) if out else {}, told


def walras(bootstrap: str, *words: str) -> tuple[int, dict[str, Any], str]:
    return Walras(bootstrap, *words).result()


def taken(record: Record) -> Event:
    """Return an event as the service takes it that judges the topic."""
    accepted = types_on(record.topic)
    event = decode_edge(record.type, record.event_id, record.source, record.value, accepted)
    assert isinstance(event, Event), event
    assert record.partition == partition_of(event.partition_key(), TOPICS[record.topic].partitions)
    assert record.key == event.record_key()
    return event


def test_the_commands_show_what_is_committed_and_follow_what_they_ask_for(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    bootstrap = own_broker().bootstrap
    code, document, told = walras(bootstrap, "jobs")
    assert (code, document["error"]["code"]) == (2, "topic_missing")
    assert "has no topic walras.queue.v1" in told
    asyncio.run(create_topics(bootstrap, TOPICS))
    market = Market(bootstrap)
    market.step(changed(pool("t")), supply(), observed(), node(), prices(3, NOW_MS, p=7))
    market.step(queued("k", limit_micro=5), queued("j", position=1), health(), lease(), running())
    market.step(status("k", reason="price_above_limit", needed_macc=8000, changed_ms=NOW_MS + 5000))
    market.step(queued("ghost"), status("k", "running"), node("ghost"), commit=False)
    market.junk("node.health", "walras.node.health.v1")
    market.junk("inventory", "walras.node.observed.v1")

    _check_what_is_shown(bootstrap)
    _check_submission_and_changes(bootstrap, market, tmp_path / "job.toml")
    _check_drain_of_a_job(bootstrap, market)
    _check_drain_of_a_node(bootstrap, market)


def _check_what_is_shown(bootstrap: str) -> None:
    code, document, _ = walras(bootstrap, "jobs", "t")
    assert code == 0
    assert [(each["job"], each["state"]) for each in document["jobs"]] == [
        ("j", "running"),
        ("k", "pending"),
    ]
    waiting = document["jobs"][1]["waiting"]
    assert (waiting["reason"], waiting["short_by_macc"], waiting["cycle"]) == (
        "price_above_limit",
        8000,
        3,
    )
    assert document["jobs"][1]["prices"][0]["short_by_micro"] == 2
    assert document["barrier"] == 2
    code, document, _ = walras(bootstrap, "jobs", "t/nothing")
    assert (code, document["error"]["code"]) == (2, "unknown_job")
    code, document, told = walras(bootstrap, "nodes")
    assert (code, [each["node"] for each in document["nodes"]]) == (0, ["n-1"])
    assert (document["nodes"][0]["held"], document["nodes"][0]["silent_ms"]) == (2, 5000)
    assert "2 records are no events and were passed over" in told


def _check_submission_and_changes(bootstrap: str, market: Market, file: Path) -> None:
    file.write_text('team = "t"\njob = "new"\ntypes = ["a100"]\naccelerators = 8\nlimit = 2.5\n')
    submitting = Walras(bootstrap, "submit", str(file))
    (record,) = market.asked("demand", 1)
    job = taken(record)
    assert isinstance(job, JobSubmitted)
    assert (job.limit_micro, job.submitted_ms) == (2_500_000, NOW_MS + 10_000)
    entry = queued("new", position=2, limit_micro=2_500_000, submitted_ms=job.submitted_ms)
    market.step(entry)
    code, document, _ = submitting.result()
    assert (code, document["outcome"], document["queued"]["position"]) == (0, "accepted", 2)
    code, document, _ = walras(bootstrap, "submit", str(file))
    assert (code, document["outcome"]) == (0, "already")
    file.write_text(file.read_text().replace("new", "other"))
    submitting = Walras(bootstrap, "submit", str(file))
    _, record = market.asked("demand", 2)
    refusal = Rejection(RejectionCode.JOB_EXISTS, "$.job", "it is there")
    market.refuse(
        DemandRejected.of(
            refusal,
            source=record.source,
            event_id=record.event_id,
            topic="demand",
            partition=record.partition,
            offset=record.offset,
        )
    )
    code, document, _ = submitting.result()
    assert (code, document["outcome"], document["refusal"]["code"]) == (3, "refused", "job_exists")
    code, document, _ = walras(bootstrap, "limit", "t/new", "none", "--no-wait")
    assert (code, document["outcome"]) == (0, "written")
    code, document, _ = walras(bootstrap, "cancel", "t/new", "--timeout-s", "1")
    assert (code, document["outcome"]) == (4, "not_known")
    asked = [taken(each) for each in market.asked("demand", 4)]
    assert asked[2:] == [
        JobLimitChanged(team="t", job="new", revision=1, limit_micro=None),
        JobCancelled(team="t", job="new"),
    ]


def _check_drain_of_a_job(bootstrap: str, market: Market) -> None:
    draining = Walras(bootstrap, "drain", "t/j", "--key", "k")
    (record,) = market.asked("drain.orders", 1)
    first = taken(record)
    draining.interrupt()
    code, document, told = draining.result()
    assert (code, document) == (130, {})
    assert told.endswith("walras drain: interrupted; what was written stays written\n")
    draining = Walras(bootstrap, "drain", "t/j", "--key", "k")
    _, record = market.asked("drain.orders", 2)
    order = taken(record)
    assert order == first, "the same key, the same order"
    assert isinstance(order, DrainOrdered)
    market.step(session("warned", blockers=("l-1 on n-1 saves",)))
    market.step(session("freed", blockers=()))
    code, document, told = draining.result()
    assert (code, document["outcome"], document["session"]["state"]) == (0, "done", "freed")
    assert f"order {order.order}: drain t/j, lease l-1" in told


def _check_drain_of_a_node(bootstrap: str, market: Market) -> None:
    code, document, _ = walras(bootstrap, "drain", "n-1", "--off")
    assert (code, document["error"]["code"]) == (2, "not_drained")
    draining = Walras(bootstrap, "drain", "n-1", "--urgent")
    (record,) = market.asked("inventory", 1)
    stated = taken(record)
    assert isinstance(stated, NodeObserved)
    assert (stated.state, stated.urgent, stated.devices) == ("draining", True, 8)
    market.step(node(state="draining", urgent=True), node_drain("draining"))
    market.step(node_drain("stuck", blockers=("l-1 of team t",)))
    code, document, _ = draining.result()
    assert (code, document["outcome"], document["drain"]["state"]) == (3, "otherwise", "stuck")


@contextmanager
def queue_log(bootstrap: str, **more: Any) -> Iterator[KafkaLog]:
    with open_log(bootstrap, ["queue"], **more) as log:
        yield log


def test_a_follower_misses_nothing_between_reading_and_following(own_broker: OwnBroker) -> None:
    bootstrap = own_broker().bootstrap
    asyncio.run(create_topics(bootstrap, TOPICS))
    market = Market(bootstrap)
    for number in range(5):
        market.step(queued("j", revision=number))
    with queue_log(bootstrap) as log:
        read = [*log.read("queue", JobQueued, partition_key="t")]
        stretches = [*log.backwards("queue", JobQueued, partition_key="t")]
        assert [item for stretch in stretches[::-1] for item in stretch] == read
        assert [_revision(item) for item in read if item.event is not None] == [0, 1, 2, 3, 4]
    with queue_log(bootstrap) as log:
        read = [*log.read("queue", JobQueued, partition_key="t")]
        market.step(queued("j", revision=5))
        followed = log.follow([Watch("queue", (JobQueued,), "t")])
        items = [next(followed) for _ in range(2)]
        followed.close()
        assert [_revision(item) for item in items if item and item.event is not None] == [5]


def _revision(item: Item) -> int:
    assert isinstance(item.event, JobQueued)
    return item.event.revision


def test_a_broker_that_stops_is_said_so_at_once_and_while_it_is_waited(
    own_broker: OwnBroker,
) -> None:
    broker = own_broker()
    asyncio.run(create_topics(broker.bootstrap, TOPICS))
    with queue_log(broker.bootstrap, probe_after_s=0.5) as log:
        assert [*log.read("queue", JobQueued)] == []
        broker.stop()
        with pytest.raises(JobsLogError) as caught:
            list(log.follow([Watch("queue", (JobQueued,), "t")]))
    assert (caught.value.code, caught.value.retriable) == (Fault.BROKER_UNAVAILABLE, True)
    for words in (["jobs"], ["nodes"], ["drain", "t/j"], ["drain", "n"], ["cancel", "t/j"]):
        code, document, told = walras(broker.bootstrap, *words)
        assert (code, document["error"]["code"]) == (2, "broker_unavailable")
        assert told.startswith(f"walras {words[0]}: the broker {broker.bootstrap} does not answer")
        assert told.count("\n") == 1
