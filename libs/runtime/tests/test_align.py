"""Alignment: steps are a function of the partitions' contents, not of how they arrived."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_runtime.align import Aligned, Aligner, PartitionKey
from walras_runtime.errors import InvariantBrokenError
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
    while aligner.ready(len(taken)) and len(taken) < 1_000:
        try:
            taken.append(aligner.take(len(taken)))
        except InvariantBrokenError:
            return  # an input without lag is at its end


def steps_of(content: Content, order: list[PartitionKey]) -> tuple[list[Aligned], Aligner]:
    feed = Feed.start(content)
    taken: list[Aligned] = []
    for key in order:
        feed.push(key)
        take_ready(feed.aligner, taken)
    for _ in feed.rest():
        take_ready(feed.aligner, taken)
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


def test_a_hole_in_the_numbers_breaks_an_invariant() -> None:
    aligner = Aligner((Input("a"),), {"a": (0,)}, {}, {})
    aligner.push_barrier("a", 0, 0, barrier(0))
    with pytest.raises(InvariantBrokenError, match="a/0: barrier 2 follows 0"):
        aligner.push_barrier("a", 0, 1, barrier(2))


def test_partitions_that_disagree_on_the_market_time_break_an_invariant() -> None:
    aligner = Aligner((Input("a"),), {"a": (0, 1)}, {}, {})
    aligner.push_barrier("a", 0, 0, Barrier(0, 1))
    aligner.push_barrier("a", 1, 0, Barrier(0, 2))
    with pytest.raises(InvariantBrokenError, match="barrier 0"):
        aligner.take(0)


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
