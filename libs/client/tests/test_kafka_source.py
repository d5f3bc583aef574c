"""What a reader makes of the market's own topics, record by record."""

from dataclasses import dataclass

import pytest

from walras_client.kafka_source import _Read
from walras_client.sheets import Quota
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.registry import UnknownVersionError
from walras_runtime.kafka.wire import Headers, barrier_headers, barrier_value, event_headers
from walras_runtime.records import BARRIER_KEYS, Barrier


@dataclass(frozen=True)
class Message:
    """What a consumer gives."""

    key: bytes
    value: bytes | None
    headers: Headers
    partition: int = 0
    offset: int = 0
    timestamp: int = 5


def mark(number: int, partition: int = 0, epoch: int = 1, timestamp: int = 5) -> Message:
    barrier = Barrier(number, 0)
    key = barrier.key(cyclic=True).encode()
    return Message(
        key, barrier_value(barrier), barrier_headers(epoch), partition, timestamp=timestamp
    )


def quota(macc: int) -> Event:
    part = MarketQuota(market="gpu", allocated_macc=macc, opportunistic_macc=0, price_micro=2)
    return QuotaGranted(team="a", pool="p", cycle=9, market_time_ms=0, markets=(part,))


def record(value: bytes | None, kind: str = QuotaGranted.TYPE, key: bytes = b"a") -> Message:
    return Message(key, value, event_headers("id", b"test", kind))


def read(*messages: Message) -> _Read:
    found = _Read()
    for message in messages:
        found.take("quotas", message.partition, message)
    return found


def test_the_tail_of_barriers_that_compaction_left_is_enough() -> None:
    first = 3 * BARRIER_KEYS + 7
    marks = [mark(first + n, p) for p in (0, 1) for n in range(3 - p)]
    sheet = read(record(quota(5).payload()), *marks).sheet("log", 2)
    assert sheet is not None
    assert (sheet.place.barrier, sheet.place.cycle) == (first + 1, 9)
    assert sheet.teams == {"a": {"gpu": Quota(5)}}


def test_partitions_without_a_barrier_in_common_show_nothing() -> None:
    assert read(mark(9, 0), mark(3, 1)).sheet("log", 2) is None
    assert read(mark(9, 0)).sheet("log", 2) is None


def test_a_barrier_that_was_written_twice_counts_once_with_the_highest_epoch() -> None:
    sheet = read(mark(3, epoch=1, timestamp=5), mark(3, epoch=2, timestamp=8)).sheet("log", 1)
    assert sheet is not None
    assert (sheet.place.epoch, sheet.place.published_at_ms) == (2, 5)


@pytest.mark.parametrize("value", [None, b"{}", quota(7).payload()])
@pytest.mark.parametrize("kind", ["", "com.example.thing", "walras.supply.published.v1"])
def test_what_is_no_event_of_the_topic_changes_nothing(kind: str, value: bytes | None) -> None:
    sheet = read(record(quota(5).payload()), record(value, kind), mark(0)).sheet("log", 1)
    assert sheet is not None
    assert sheet.teams == {"a": {"gpu": Quota(5)}}


def test_a_tombstone_ends_a_team_and_an_unknown_version_is_an_error_with_a_code() -> None:
    sheet = read(record(quota(5).payload()), record(None), mark(0)).sheet("log", 1)
    assert sheet is not None
    assert sheet.teams == {}
    with pytest.raises(UnknownVersionError):
        read(record(b"{}", "walras.quota.granted.v2"))
