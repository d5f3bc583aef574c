"""The snapshot is a function of what lies before a barrier, in whatever order it is read."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_runtime.errors import InvariantBrokenError, PartitionStoppedError
from walras_runtime.kafka.wire import BarrierMark
from walras_runtime.records import Barrier, Record
from walras_snapshot.projection import Projection, Snapshot

PARTITIONS = {"accounts": 2, "supply": 2, "quotas": 3}
COMPACTED = ("supply", "quotas")
Item = Record | BarrierMark


@dataclass
class Log:
    """Records and barriers per partition, as a reader would parse them."""

    items: dict[tuple[str, int], list[Item]] = field(
        default_factory=lambda: {(t, p): [] for t, n in PARTITIONS.items() for p in range(n)}
    )

    def write(self, event: Event) -> None:
        key = (event.TOPIC, partition_of(event.partition_key(), PARTITIONS[event.TOPIC]))
        self.append(*key, event.record_key(), event.TYPE, event.payload())

    def append(self, topic: str, partition: int, key: str, kind: str, value: bytes | None) -> None:
        held = self.items[topic, partition]
        held.append(Record(topic, partition, len(held), key, kind, value))

    def barrier(self, number: int, epoch: int = 1, stamp_ms: int = 0) -> None:
        for (_, partition), held in self.items.items():
            mark = BarrierMark(
                Barrier(number, number * 60_000),
                epoch,
                stamp_ms + number * 1000 + partition,
                len(held),
                None,
            )
            held.append(mark)

    def compacted(self) -> "Log":
        """What is left when only the latest record of each key is kept."""
        kept: dict[tuple[str, int], list[Item]] = {}
        for (topic, partition), held in self.items.items():
            last = {i.key: i.offset for i in held if isinstance(i, Record)}
            kept[topic, partition] = [
                i
                for i in held
                if topic not in COMPACTED or isinstance(i, BarrierMark) or last[i.key] == i.offset
            ]
        return Log(kept)


def read(log: Log, order: list[tuple[str, int]], every: int = 10**9) -> Snapshot | None:
    """Read partition by partition in turns given by ``order``; advance after every few items."""
    projection = Projection(PARTITIONS, 1)
    positions = dict.fromkeys(log.items, 0)
    latest, pushed = None, 0
    rest = [key for key, held in log.items.items() for _ in held]
    for key in [*order, *rest]:
        if positions[key] >= len(log.items[key]):
            continue
        projection.push(*key, log.items[key][positions[key]])
        positions[key] += 1
        pushed += 1
        if pushed % every == 0:
            latest = projection.advance() or latest
    return projection.advance() or latest


def quota(team: str, cycle: int, macc: int) -> QuotaGranted:
    part = MarketQuota(
        market="m", allocated_macc=macc, opportunistic_macc=macc % 7, price_micro=macc * 10
    )
    return QuotaGranted(
        team=team, pool="p", cycle=cycle, market_time_ms=cycle * 60_000, markets=(part,)
    )


def supply(market: str, macc: int) -> SupplyPublished:
    return SupplyPublished(
        market=market,
        shared_macc=macc,
        own=(OwnSupply(pool="p", macc=macc),),
        withheld_macc=0,
        market_time_ms=0,
    )


def accounts(pool: str, version: int, effective_ms: int, incomes: list[int]) -> AccountsChanged:
    teams = tuple(
        TeamAccount(team=f"{pool}{i}", income_local_per_hour=income)
        for i, income in enumerate(incomes)
    )
    document = PoolDocument(pool=pool, weight_micro_per_hour=1, teams=teams)
    return AccountsChanged(version=version, effective_ms=effective_ms, document=document)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log, versions = Log(), {"p": 0, "q": 0}
    for number in range(draw(st.integers(1, 6))):
        for _ in range(draw(st.integers(0, 5))):
            match draw(st.sampled_from(["quota", "supply", "accounts", "gone"])):
                case "quota":
                    team = draw(st.sampled_from(["t1", "t2", "t3"]))
                    log.write(quota(team, number, draw(st.integers(0, 50))))
                case "supply":
                    log.write(supply(draw(st.sampled_from("mn")), draw(st.integers(0, 99))))
                case "accounts":
                    pool = draw(st.sampled_from("pq"))
                    versions[pool] += 1
                    due = (number + draw(st.integers(0, 2))) * 60_000
                    incomes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
                    log.write(accounts(pool, versions[pool], due, incomes))
                case _:
                    team = draw(st.sampled_from(["t1", "t2", "t3"]))
                    log.append("quotas", partition_of(team, 3), team, QuotaGranted.TYPE, None)
        log.barrier(number, epoch=1 + number // 3, stamp_ms=draw(st.integers(0, 10**6)))
    return log


ORDERS = st.lists(st.sampled_from(sorted(Log().items)), max_size=60)


@settings(deadline=None)
@given(log=logs(), one=ORDERS, other=ORDERS, every=st.integers(1, 9))
def test_the_order_of_reading_and_the_pace_do_not_change_a_byte(
    log: Log, one: list[tuple[str, int]], other: list[tuple[str, int]], every: int
) -> None:
    assert read(log, one) == read(log, other, every)


@settings(deadline=None)
@given(log=logs(), order=ORDERS)
def test_a_reader_of_the_compacted_log_ends_with_the_same_bytes(
    log: Log, order: list[tuple[str, int]]
) -> None:
    assert read(log.compacted(), order) == read(log, [])


def test_the_harness_sees_a_byte_that_differs() -> None:
    one, other = Log(), Log()
    for log, macc in ((one, 10), (other, 11)):
        log.write(quota("t1", 0, macc))
        log.barrier(0)
    first, second = read(one, []), read(other, [])
    assert first is not None
    assert second is not None
    assert first.body != second.body


def test_a_snapshot_shows_the_last_barrier_that_all_partitions_show() -> None:
    log = Log()
    log.write(supply("m", 8))
    log.write(accounts("p", 1, 0, [3, 1]))
    log.write(quota("p0", 0, 6))
    log.barrier(0, epoch=4, stamp_ms=70)
    log.write(quota("p0", 1, 7))
    log.barrier(1, epoch=5, stamp_ms=70)
    projection = Projection(PARTITIONS, 1)
    for key, held in log.items.items():
        # One partition of quotas has not shown barrier 1 yet.
        for item in held[:-1] if key == ("quotas", 2) else held:
            projection.push(*key, item)
    snapshot = projection.advance()
    assert snapshot is not None
    assert (snapshot.epoch, snapshot.cycle, snapshot.barrier) == (4, 0, 0)
    assert snapshot.published_at_ms == 70  # of the barrier in partition 0
    assert json.loads(snapshot.body) == {
        "format": 1,
        "barrier": 0,
        "cycle": 0,
        "market_time_ms": 0,
        "quotas": {
            "p0": {
                "pool": "p",
                "cycle": 0,
                "markets": {"m": {"allocated_macc": 6, "opportunistic_macc": 6, "price_micro": 60}},
            }
        },
        "supply": {"m": {"shared_macc": 8, "own": {"p": 8}, "withheld_macc": 0}},
        "floor": {"p0": {"m": 6}, "p1": {"m": 2}},
    }
    projection.push("quotas", 2, log.items["quotas", 2][-1])
    later = projection.advance()
    assert later is not None
    assert (later.epoch, later.barrier, later.published_at_ms) == (5, 1, 1070)


def test_epoch_and_time_of_publication_are_not_in_the_body() -> None:
    bodies = []
    for epoch, stamp_ms in ((1, 0), (9, 5_000_000)):
        log = Log()
        log.write(quota("t1", 0, 5))
        log.barrier(0, epoch, stamp_ms)
        snapshot = read(log, [])
        assert snapshot is not None
        bodies.append(snapshot.body)
        fields = snapshot.versioned().fields
        assert fields["published_at_ms"] == b"%d" % stamp_ms
        assert snapshot.versioned().stamp.epoch == epoch
    assert bodies[0] == bodies[1]


def test_a_later_document_of_a_pool_counts_from_its_market_time() -> None:
    log = Log()
    log.write(supply("m", 10))
    log.write(accounts("p", 1, 0, [1]))
    log.write(accounts("p", 2, 120_000, [1, 1]))
    floors = []
    for number in range(3):
        log.barrier(number)
        snapshot = read(log, [])
        assert snapshot is not None
        floors.append(json.loads(snapshot.body)["floor"])
    assert floors == [{"p0": {"m": 10}}, {"p0": {"m": 10}}, {"p0": {"m": 5}, "p1": {"m": 5}}]


def test_a_second_writer_of_a_barrier_is_passed_over() -> None:
    log = Log()
    log.write(quota("t1", 0, 5))
    log.barrier(0, epoch=2)
    first = read(log, [])
    log.barrier(0, epoch=1, stamp_ms=999)
    assert read(log, []) == first


def test_barriers_per_cycle_that_are_not_clearings_are_refused() -> None:
    log = Log()
    log.write(quota("t1", 0, 5))
    log.barrier(0)
    log.write(quota("t1", 5, 5))
    log.barrier(1)
    with pytest.raises(InvariantBrokenError, match="WALRAS_CYCLE_EVERY"):
        read(log, [])


def test_broken_bytes_are_counted_and_an_unknown_version_stops_at_its_own_step() -> None:
    log = Log()
    log.append("quotas", 0, "t", QuotaGranted.TYPE, b"{")
    log.write(quota("t1", 0, 5))
    log.barrier(0)
    projection = Projection(PARTITIONS, 1)
    for key, held in log.items.items():
        for item in held:
            projection.push(*key, item)
    # It lies behind barrier 0, which is shown all the same.
    newer = Record("quotas", 0, 99, "t", "walras.quota.granted.v9", b"{}")
    projection.push("quotas", 0, newer)
    snapshot = projection.advance()
    assert projection.undecodable == {"quotas": 1}
    assert snapshot is not None
    assert list(json.loads(snapshot.body)["quotas"]) == ["t1"]
    for (topic, partition), held in log.items.items():
        mark = BarrierMark(Barrier(1, 60_000), 1, 0, 100 + len(held), None)
        projection.push(topic, partition, mark)
    with pytest.raises(PartitionStoppedError):
        projection.advance()
