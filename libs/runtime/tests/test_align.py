"""Alignment: steps are a function of the partitions' contents, not of how they arrived."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_runtime.align import Aligned, Aligner, PartitionKey
from walras_runtime.errors import BarrierFaultError
from walras_runtime.records import Barrier, Record
from walras_runtime.stage import Input

INPUTS = (Input("a"), Input("b", may_be_late=False), Input("feedback", lag=1), Input("far", lag=2))
PARTITIONS = {"a": (0, 1), "b": (0,), "feedback": (0, 1), "far": (0,)}
KEYS: tuple[PartitionKey, ...] = tuple((t, p) for t, ps in PARTITIONS.items() for p in ps)

Content = dict[PartitionKey, list[Record | Barrier]]


def barrier(number: int) -> Barrier:
    return Barrier(number, number * 1_000)


def content_of(sizes: dict[PartitionKey, list[int]]) -> Content:
    """Return for each partition its log: sizes[key][n] records, then barrier n."""
    logs: Content = {}
    for (topic, partition), counts in sizes.items():
        log: list[Record | Barrier] = []
        for number, count in enumerate(counts):
            for _ in range(count):
                log.append(Record(topic, partition, len(log), f"{number}", "t", b""))
            log.append(barrier(number))
        logs[topic, partition] = log
    return logs


@st.composite
def contents(draw: st.DrawFn) -> Content:
    steps = draw(st.integers(1, 6))
    counts = st.lists(st.integers(0, 3), min_size=steps, max_size=steps)
    return content_of({key: draw(counts) for key in KEYS})


@dataclass(slots=True)
class Feed:
    """Pushes the items of each partition in order, in any interleaving of the partitions."""

    aligner: Aligner
    content: Content
    at: dict[PartitionKey, int]

    @staticmethod
    def start(content: Content, aligner: Aligner | None = None) -> "Feed":
        return Feed(aligner or Aligner(INPUTS, PARTITIONS, {}, {}), content, dict.fromkeys(KEYS, 0))

    def push(self, key: PartitionKey) -> bool:
        at = self.at[key]
        if at >= len(self.content[key]):
            return False
        item = self.content[key][at]
        if isinstance(item, Record):
            self.aligner.push_record(item)
        else:
            self.aligner.push_barrier(*key, at, item)
        self.at[key] = at + 1
        return True

    def rest(self) -> Iterator[PartitionKey]:
        for key in KEYS:
            while self.push(key):
                yield key


def take_ready(aligner: Aligner, taken: list[Aligned]) -> None:
    while aligner.ready(len(taken)):
        taken.append(aligner.take(len(taken)))


def steps_of(content: Content, order: list[PartitionKey]) -> tuple[list[Aligned], Aligner]:
    feed = Feed.start(content)
    taken: list[Aligned] = []
    for key in order:
        feed.push(key)
        take_ready(feed.aligner, taken)
    for _ in feed.rest():
        take_ready(feed.aligner, taken)
    numbers = {item.number for item in content["a", 0] if isinstance(item, Barrier)}
    assert len(taken) == len(numbers)
    return taken, feed.aligner


@given(contents(), st.lists(st.sampled_from(KEYS), max_size=60))
def test_any_interleaving_of_arrivals_gives_the_same_steps(
    content: Content, order: list[PartitionKey]
) -> None:
    taken, aligner = steps_of(content, order)
    plain, other = steps_of(content, [])
    assert taken == plain
    assert aligner.position() == other.position()
    assert aligner.delivered() == other.delivered()


@given(contents(), st.lists(st.sampled_from(KEYS), max_size=60))
def test_each_record_is_in_the_step_of_its_barrier_plus_the_lag_and_in_no_other(
    content: Content, order: list[PartitionKey]
) -> None:
    taken, _ = steps_of(content, order)
    lags = {source.topic: source.lag for source in INPUTS}
    for number, aligned in enumerate(taken):
        assert aligned.barrier == barrier(number)
        assert aligned.late == ()
        assert list(aligned.records) == [source.topic for source in INPUTS]
        for topic, records in aligned.records.items():
            wanted = [
                item
                for p in PARTITIONS[topic]
                for item in content[topic, p]
                if isinstance(item, Record) and int(item.key) == number - lags[topic]
            ]
            assert records == wanted


@given(contents(), st.integers(0, 6))
def test_an_aligner_that_starts_where_another_stopped_gives_the_steps_that_follow(
    content: Content, stop: int
) -> None:
    whole, _ = steps_of(content, [])
    stop = min(stop, len(whole))
    first = Feed.start(content)
    for _ in first.rest():
        pass
    for number in range(stop):
        first.aligner.take(number)
    offsets, delivered = first.aligner.position(), first.aligner.delivered()
    second = Feed.start(content, Aligner(INPUTS, PARTITIONS, offsets, delivered))
    second.at = dict(offsets)
    for _ in second.rest():
        pass
    taken = [second.aligner.take(number) for number in range(stop, len(whole))]
    assert taken == whole[stop:]


@given(contents(), st.data())
def test_a_barrier_that_is_written_twice_is_passed_over(
    content: Content, data: st.DataObject
) -> None:
    doubled: Content = {}
    for key, log in content.items():
        again: list[Record | Barrier] = []
        for item in log:
            # Offsets differ, so the records are made anew.
            again.append(
                item if isinstance(item, Barrier) else Record(*key, len(again), item.key, "t", b"")
            )
            if isinstance(item, Barrier) and data.draw(st.booleans()):
                again.append(barrier(data.draw(st.integers(0, item.number))))
        doubled[key] = again

    def names(steps: list[Aligned]) -> list[dict[str, list[tuple[int, str]]]]:
        return [
            {t: [(r.partition, r.key) for r in records] for t, records in step.records.items()}
            for step in steps
        ]

    assert names(steps_of(doubled, [])[0]) == names(steps_of(content, [])[0])


def test_a_hole_in_the_numbers_is_told_to_the_step_that_waits_for_what_is_missing() -> None:
    aligner = Aligner((Input("a"),), {"a": (0,)}, {}, {})
    assert aligner.push_barrier("a", 0, 0, barrier(0))
    assert not aligner.push_barrier("a", 0, 1, barrier(2))
    assert aligner.ready(0)
    assert aligner.take(0).barrier == barrier(0)
    with pytest.raises(BarrierFaultError, match="a/0@1: barrier 2 follows 0"):
        aligner.ready(1)
    assert not BarrierFaultError.retriable


def test_partitions_that_disagree_on_the_market_time_are_told_apart_by_their_place() -> None:
    aligner = Aligner((Input("a"),), {"a": (0, 1)}, {}, {})
    aligner.push_barrier("a", 0, 0, Barrier(0, 1))
    aligner.push_barrier("a", 1, 0, Barrier(0, 2))
    with pytest.raises(BarrierFaultError, match=r"a/1@0: barrier 0 is .* elsewhere"):
        aligner.take(0)


def test_a_barrier_of_an_older_epoch_ends_no_step_and_the_newer_writers_one_does() -> None:
    aligner = Aligner((Input("a"),), {"a": (0,)}, {}, {})
    assert aligner.push_barrier("a", 0, 0, barrier(0), epoch=2)
    assert aligner.ready(0)
    aligner.take(0)
    aligner.push_record(Record("a", 0, 1, "before", "t", b""))
    # A writer that had been replaced and does not know it yet.
    assert not aligner.push_barrier("a", 0, 2, barrier(1), epoch=1)
    with pytest.raises(BarrierFaultError, match="barrier 1 of epoch 1 follows one of epoch 2"):
        aligner.ready(1)
    aligner.push_record(Record("a", 0, 3, "behind", "t", b""))
    assert aligner.push_barrier("a", 0, 4, barrier(1), epoch=2)
    assert aligner.ready(1)
    assert [record.key for record in aligner.take(1).records["a"]] == ["before", "behind"]


strays = st.tuples(st.integers(0, 12), st.integers(0, 8) | st.just(2**53 - 1), st.integers(0, 3))
"""Place in the partition, number, epoch; the epoch of the right writer is 1."""


@given(contents(), st.lists(st.tuples(st.sampled_from(KEYS), strays), max_size=8))
def test_valid_barriers_out_of_sequence_change_no_step_and_break_nothing(
    content: Content, forged: list[tuple[PartitionKey, tuple[int, int, int]]]
) -> None:
    plain, _ = steps_of(content, [])
    aligner = Aligner(INPUTS, PARTITIONS, {}, {})
    for key in KEYS:
        seen = -1
        for at, item in enumerate(content[key]):
            for where, (place, number, epoch) in forged:
                # The next number of an epoch as new would be the barrier, whoever wrote it.
                next_one = number == seen + 1 and (epoch >= 1 or seen == -1)
                if (where, place) == (key, at) and not next_one:
                    assert not aligner.push_barrier(*key, at, barrier(number), epoch=epoch)
            if isinstance(item, Record):
                aligner.push_record(item)
            else:
                assert aligner.push_barrier(*key, at, item, epoch=1)
                seen = item.number
    taken: list[Aligned] = []
    while len(taken) < len(plain):
        assert aligner.ready(len(taken))
        taken.append(aligner.take(len(taken)))
    assert taken == plain


@given(contents(), st.sampled_from(KEYS), st.data())
def test_a_barrier_that_was_lost_stops_the_step_that_needs_it_and_none_before(
    content: Content, key: PartitionKey, data: st.DataObject
) -> None:
    plain, _ = steps_of(content, [])
    lost = data.draw(st.integers(0, len(plain) - 1))
    lag = next(source.lag for source in INPUTS if source.topic == key[0])
    holed = {**content, key: [item for item in content[key] if item != barrier(lost)]}
    feed = Feed.start(holed)
    for _ in feed.rest():
        pass
    behind_it = lost < len(plain) - 1
    taken: list[Aligned] = []
    while len(taken) < min(lost + lag, len(plain)):
        assert feed.aligner.ready(len(taken))
        taken.append(feed.aligner.take(len(taken)))
    assert taken == plain[: len(taken)]
    if not behind_it:
        assert len(taken) == len(plain) or not feed.aligner.ready(len(taken))
        return
    with pytest.raises(BarrierFaultError, match=f"barrier {lost + 1} follows {lost - 1}"):
        feed.aligner.ready(lost + lag)


TABLES = (Input("a"), Input("t", table=True), Input("far", table=True, lag=2))
TABLE_PARTITIONS = {"a": (0,), "t": (0, 1), "far": (0,)}


def test_a_table_that_begins_in_the_middle_serves_the_steps_that_it_reaches_back_to() -> None:
    aligner = Aligner(TABLES, TABLE_PARTITIONS, {}, {})
    for number in range(10):
        aligner.push_barrier("a", 0, number, barrier(number))
    for topic, partition, first in (("t", 0, 3), ("t", 1, 5), ("far", 0, 2)):
        aligner.push_record(Record(topic, partition, 7, f"before {first}", "t", b""))
        for number in range(first, 10):
            aligner.push_barrier(topic, partition, 8 + number, barrier(number))
    assert aligner.starts_at() == 5
    for number in (0, 3, 4):
        with pytest.raises(BarrierFaultError, match="has been compacted away"):
            aligner.ready(number)
    assert aligner.ready(5)
    first_step = aligner.take(5)
    assert first_step.barrier == barrier(5)
    assert [r.key for r in first_step.records["t"]] == ["before 3", "before 5"]
    assert [r.key for r in first_step.records["far"]] == ["before 2"]
    assert aligner.delivered() == {("a", 0): 5, ("t", 0): 5, ("t", 1): 5, ("far", 0): 3}
    assert aligner.ready(9)


def test_only_a_table_read_from_its_beginning_may_begin_in_the_middle() -> None:
    no_table = Aligner((Input("a"),), {"a": (0,)}, {}, {})
    no_table.push_barrier("a", 0, 0, barrier(4))
    with pytest.raises(BarrierFaultError, match="barrier 4 follows -1"):
        no_table.ready(0)
    gone_on = Aligner((Input("t", table=True),), {"t": (0,)}, {("t", 0): 9}, {("t", 0): 2})
    gone_on.push_barrier("t", 0, 12, barrier(4))
    with pytest.raises(BarrierFaultError, match="barrier 4 follows 2"):
        gone_on.ready(3)


def test_a_step_waits_for_lagged_inputs_only_up_to_their_lag() -> None:
    aligner = Aligner((Input("a"), Input("feedback", lag=1)), {"a": (0,), "feedback": (0,)}, {}, {})
    aligner.push_barrier("a", 0, 0, barrier(0))
    aligner.push_barrier("a", 0, 1, barrier(1))
    assert aligner.ready(0)
    aligner.take(0)
    assert aligner.missing(1) == [("feedback", 0)]
    aligner.push_barrier("feedback", 0, 0, barrier(0))
    assert aligner.ready(1)


LIVE = (Input("a"), Input("b"))
LIVE_PARTITIONS = {"a": (0, 1), "b": (0,)}
LIVE_KEYS: tuple[PartitionKey, ...] = (("a", 0), ("a", 1), ("b", 0))


@given(st.data())
def test_live_steps_name_late_partitions_with_the_barrier_used_and_lose_nothing(
    data: st.DataObject,
) -> None:
    steps = data.draw(st.integers(1, 8))
    sizes = st.lists(st.integers(0, 2), min_size=steps, max_size=steps)
    content = content_of({key: data.draw(sizes) for key in LIVE_KEYS})
    aligner = Aligner(LIVE, LIVE_PARTITIONS, {}, {})
    at = dict.fromkeys(LIVE_KEYS, 0)
    seen = dict.fromkeys(LIVE_KEYS, -1)
    got: dict[PartitionKey, list[Record]] = {key: [] for key in LIVE_KEYS}

    def push_to(key: PartitionKey, number: int) -> None:
        while seen[key] < number:
            item = content[key][at[key]]
            if isinstance(item, Record):
                aligner.push_record(item)
            else:
                aligner.push_barrier(*key, at[key], item)
                seen[key] = item.number
            at[key] += 1

    for number in range(steps):
        prompt = data.draw(st.sampled_from(LIVE_KEYS))
        for key in LIVE_KEYS:
            push_to(key, number if key == prompt else data.draw(st.integers(seen[key], number)))
        behind = [key for key in LIVE_KEYS if seen[key] < number]
        assert aligner.missing(number) == behind
        assert aligner.ready(number) == (not behind)
        assert aligner.may_go_on_without(number)
        taken = aligner.take(number)
        assert taken.late == tuple(f"{t}/{p}@{seen[t, p]}" for t, p in behind)
        for records in taken.records.values():
            for record in records:
                got[record.topic, record.partition].append(record)
        # All that lies before the barrier used was handed over, and nothing behind it.
        for key in LIVE_KEYS:
            wanted = [i for i in content[key] if isinstance(i, Record) and int(i.key) <= seen[key]]
            assert got[key] == wanted
            assert aligner.delivered()[key] == seen[key]


def test_a_partition_that_is_always_one_barrier_behind_is_still_read() -> None:
    content = content_of({("a", 0): [1] * 6, ("a", 1): [1] * 6})
    aligner = Aligner((Input("a"),), {"a": (0, 1)}, {}, {})
    taken: list[Aligned] = []
    for number in range(6):
        for partition, until in ((0, number), (1, number - 1)):
            if until >= 0:
                aligner.push_record(content["a", partition][2 * until])  # type: ignore[arg-type] # a record by its place
                aligner.push_barrier("a", partition, 2 * until + 1, barrier(until))
        taken.append(aligner.take(number))
    assert [step.late for step in taken] == [(f"a/1@{n - 1}",) for n in range(6)]
    assert [len(step.records["a"]) for step in taken] == [1, 2, 2, 2, 2, 2]


def test_a_late_partition_is_not_waited_for_again_until_it_has_caught_up() -> None:
    aligner = Aligner((Input("a"),), {"a": (0, 1)}, {}, {})
    for number in range(4):
        aligner.push_barrier("a", 0, number, barrier(number))
    assert not aligner.only_known_late(0)
    aligner.take(0)
    assert aligner.only_known_late(1)
    aligner.take(1)
    for number in range(3):
        aligner.push_barrier("a", 1, number, barrier(number))
    assert aligner.ready(2)
    assert aligner.take(2).late == ()
    assert not aligner.only_known_late(3)


def test_an_input_that_must_not_be_late_is_waited_for() -> None:
    aligner = Aligner((Input("a"), Input("b", may_be_late=False)), {"a": (0,), "b": (0,)}, {}, {})
    aligner.push_barrier("a", 0, 0, barrier(0))
    assert not aligner.may_go_on_without(0)


def test_nobody_goes_on_before_some_input_shows_the_barrier() -> None:
    aligner = Aligner((Input("a"), Input("b")), {"a": (0,), "b": (0,)}, {}, {})
    assert not aligner.may_go_on_without(0)


def test_the_newest_ready_step_is_the_last_one_that_all_partitions_show() -> None:
    aligner = Aligner((Input("a"), Input("far", lag=2)), {"a": (0, 1), "far": (0,)}, {}, {})
    for number in range(8):
        aligner.push_barrier("a", 0, number, barrier(number))
        if number < 5:
            aligner.push_barrier("a", 1, number, barrier(number))
        if number < 2:
            aligner.push_barrier("far", 0, number, barrier(number))
    aligner.take(0)
    assert aligner.newest_ready() == 3
    aligner.push_barrier("far", 0, 9, barrier(2))
    aligner.push_barrier("far", 0, 10, barrier(3))
    assert aligner.newest_ready() == 4


def test_a_late_partition_does_not_hold_the_newest_ready_step_below_the_one_in_hand() -> None:
    """One that stays behind is not waited for by the next steps either."""
    aligner = Aligner((Input("a"),), {"a": (0, 1)}, {}, {})
    for number in range(6):
        aligner.push_barrier("a", 0, number, barrier(number))
    aligner.push_barrier("a", 1, 0, barrier(0))
    aligner.take(0)
    assert aligner.newest_ready() == 0  # nobody has gone on without it yet
    aligner.take(1)
    assert aligner.newest_ready() == 5
    for number in range(1, 4):
        aligner.push_barrier("a", 1, number, barrier(number))
    aligner.take(2)
    assert aligner.newest_ready() == 3
