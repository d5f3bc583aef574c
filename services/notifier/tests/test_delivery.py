"""Every notice is brought at least once or given up after its time, in order, whatever happens."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.notifier.tests.delivery_world import GOOD, World
from services.notifier.tests.notices import notice
from walras_contracts.drains import NotificationIssued
from walras_notifier.core import Fate, Policy
from walras_notifier.dispatching import Attempt, Dispatcher
from walras_notifier.outcomes import Delivered, Failed, Refused
from walras_notifier.state import NOTE_MAX, Track, position_of, track_of
from walras_notifier.subscriptions import EVERYBODY, Receiver, Subscription
from walras_runtime.kafka.effects import NOTE_BYTES

SEEDS = st.integers(0, 10**9)


# Refused, then a later one is brought; after a crash it is tried again, and taken.
@example(63821)
@given(SEEDS)
def test_nothing_is_lost_given_up_early_or_out_of_order_in_any_history(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.check() == [], f"seed {seed}"


class _SaysAllIsDone(Dispatcher):
    def position(self, partition: int) -> tuple[int, str]:
        track = self._tracks[partition]
        return max(track.read, track.start), ""


class _ForgetsTheOrder(Dispatcher):
    def take(
        self, partition: int, offset: int, notice: NotificationIssued, limit: int, now_ms: int
    ) -> None:
        super().take(partition, offset, notice, limit, now_ms)
        for line in self._lines.values():
            for lane in line.lanes.values():
                if not lane.running:
                    lane.queue.reverse()


class _RepeatsToAll(Dispatcher):
    def begin(self, partition: int, offset: int, note: str) -> list[str]:
        return super().begin(partition, offset, note[:0])


class _WaitsForAll(Dispatcher):
    def start(self, now_ms: int) -> list[Attempt]:
        busy = any(line.running for line in self._lines.values())
        return [] if busy else super().start(now_ms)


class _IsImpatient(Dispatcher):
    def take(
        self, partition: int, offset: int, notice: NotificationIssued, limit: int, now_ms: int
    ) -> None:
        super().take(partition, offset, notice, min(limit, now_ms + 1_000), now_ms)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (_SaysAllIsDone, "is lost for"),
        (_ForgetsTheOrder, "after a later one"),
        (_RepeatsToAll, "again"),
        (_WaitsForAll, f"came to {GOOD} at"),
        (_IsImpatient, "is given up for"),
    ],
)
def test_the_world_sees_a_broken_dispatcher(broken: type[Dispatcher], said: str) -> None:
    for seed in range(60):
        world = World(seed, broken)
        world.run()
        if any(said in fault for fault in world.check()):
            return
    pytest.fail(f"nothing {said!r} in any history")


# --- single steps -------------------------------------------------------------------------------


def dispatcher(*names: str, connections: int = 4, most_open: int = 100) -> Dispatcher:
    receivers = [
        Receiver(name=n, email=f"{n}@example.org", subscription=(Subscription(team=EVERYBODY),))
        for n in names
    ]
    policy = Policy(connections=connections, most_open=most_open)
    made = Dispatcher(receivers, policy, lambda most: most)
    made.begin(0, 0, "")
    return made


def fates(made: Dispatcher) -> list[tuple[str, Fate, str]]:
    return [(r.notice.notification, r.fate, r.why) for r in made.reports()]


def test_an_expired_advisory_is_not_sent() -> None:
    made = dispatcher("a")
    made.take(0, 0, notice(), 1_000, 1_000)
    assert made.start(1_000) == []
    assert fates(made) == [("n1", Fate.EXPIRED, "it came too late")]
    assert made.position(0) == (1, "")


def test_what_fails_is_tried_again_until_its_limit() -> None:
    made = dispatcher("a")
    made.take(0, 0, notice(), 5_000, 0)
    now_ms, tried = 0, []
    while (wake_ms := made.wake_ms()) is not None:
        now_ms = max(now_ms, wake_ms)
        for attempt in made.start(now_ms):
            tried.append(now_ms)
            made.finish(attempt, Failed("status 503"), now_ms)
    assert tried == [0, 1_000, 3_000]
    assert now_ms == 5_000
    assert fates(made)[-1] == ("n1", Fate.EXPIRED, "status 503")


def test_a_refusal_ends_the_delivery_and_the_next_one_follows() -> None:
    made = dispatcher("a")
    made.take(0, 0, notice(1), 5_000, 0)
    made.take(0, 1, notice(2), 5_000, 0)
    (attempt,) = made.start(0)
    assert made.start(0) == []
    made.finish(attempt, Refused("status 410"), 7)
    (following,) = made.start(7)
    assert following.notice.notification == "n2"
    assert fates(made) == [("n1", Fate.REFUSED, "status 410")]
    assert made.failing() == ["a"]
    made.finish(following, Delivered(), 8)
    assert made.failing() == []


def test_retry_after_holds_for_all_teams_of_the_receiver_and_for_no_other_receiver() -> None:
    made = dispatcher("a", "b")
    made.take(0, 0, notice(1, "vision"), 900_000, 0)
    first, _ = made.start(0)
    assert first.receiver.name == "a"
    made.finish(first, Failed("status 429", 60_000), 0)
    made.take(0, 1, notice(2, "speech"), 900_000, 1)
    assert [attempt.receiver.name for attempt in made.start(1)] == ["b"]
    assert made.start(59_999) == []
    assert [attempt.receiver.name for attempt in made.start(60_000)] == ["a", "a"]


def test_retry_after_does_not_outlast_the_notice() -> None:
    made = dispatcher("a")
    made.take(0, 0, notice(), 5_000, 0)
    (attempt,) = made.start(0)
    made.finish(attempt, Failed("status 503", 3_600_000), 0)
    assert made.start(1_000) == []
    assert made.wake_ms() == 5_000
    assert made.start(5_000) == []
    assert made.position(0) == (1, "")


def test_a_receiver_has_only_so_many_connections() -> None:
    made = dispatcher("a", connections=2)
    for number in range(4):
        made.take(0, number, notice(number, f"team-{number}"), 5_000, 0)
    running = made.start(0)
    assert len(running) == 2
    assert made.wake_ms() is None
    made.finish(running[0], Delivered(), 1)
    assert len(made.start(1)) == 1


def test_it_is_full_with_so_many_open_deliveries_and_not_after() -> None:
    made = dispatcher("a", "b", most_open=2)
    assert not made.full()
    made.take(0, 0, notice(), 5_000, 0)
    assert made.full()
    for attempt in made.start(0):
        made.finish(attempt, Delivered(), 0)
    assert not made.full()


def test_a_receiver_that_is_behind_holds_the_position_but_not_the_others_back() -> None:
    made = dispatcher("a", "b")
    for number in range(3):
        made.take(0, number, notice(number), 9_000, 0)
        for attempt in made.start(0):
            if attempt.receiver.name == "a":
                made.finish(attempt, Delivered(), 0)
    offset, note = made.position(0)
    assert (offset, json.loads(note)) == (0, {"read": 3, "behind": {"b": 0}})
    again = dispatcher("a", "b", "new")
    assert again.begin(0, offset, note) == []
    for number in range(4):
        again.take(0, number, notice(number, f"t{number}"), 9_000, 0)
    found = [(a.receiver.name, a.notice.notification) for a in again.start(0)]
    assert found == [("a", "n3"), *(("b", f"n{n}") for n in range(4)), ("new", "n3")]


def test_receivers_that_nobody_knows_any_more_are_named_and_dropped() -> None:
    made = dispatcher("a")
    note = '{"read":9,"behind":{"gone":4}}'
    assert made.begin(0, 4, note) == ["gone"]
    assert made.position(0)[0] == 4
    made.passed(0, 9)
    assert made.position(0) == (9, "")


def test_an_attempt_that_was_broken_off_is_made_again_after_resuming() -> None:
    made = dispatcher("a")
    made.take(0, 0, notice(), 5_000, 0)
    (attempt,) = made.start(0)
    made.suspend()
    made.abandon(attempt, 3)
    assert made.start(3) == []
    assert made.resume(0) == 1
    assert [a.notice.notification for a in made.start(3)] == ["n1"]


# --- positions ----------------------------------------------------------------------------------

OPEN = st.dictionaries(
    st.from_regex(r"[a-z]{1,60}", fullmatch=True),
    st.sets(st.integers(100, 199), min_size=1),
    max_size=120,
)


@given(OPEN)
@example({f"{'n' * 58}{n:02}": {100 + n} for n in range(90)})
@example({f"{'n' * 58}{n:02}": {100} for n in range(90)})
def test_a_note_never_says_more_than_is_done_and_fits(open_offsets: dict[str, set[int]]) -> None:
    track = Track(200, 100)
    for name, offsets in open_offsets.items():
        for offset in sorted(offsets):
            track.opened(name, offset)
    offset, note = position_of(track)
    assert len(note.encode()) <= NOTE_MAX == NOTE_BYTES
    assert offset == min((o for each in open_offsets.values() for o in each), default=200)
    restored = track_of(offset, note)
    for name, offsets in open_offsets.items():
        assert all(restored.left_for(name, each) for each in offsets)
    if len(open_offsets) <= 40:
        # With room for all names, nothing is said to be left that is over.
        for name, offsets in open_offsets.items():
            assert not any(restored.left_for(name, each) for each in range(100, min(offsets)))
        assert not any(restored.left_for("~nobody", each) for each in range(offset, 200))


@given(OPEN.filter(bool), st.integers(0, 100))
def test_a_restart_in_the_middle_of_reading_again_loses_nothing(
    open_offsets: dict[str, set[int]], further: int
) -> None:
    track = Track(200, 100)
    for name, offsets in open_offsets.items():
        for offset in sorted(offsets):
            track.opened(name, offset)
    offset, note = position_of(track)
    again = track_of(offset, note)
    again.read = min(200, offset + further)
    for name, offsets in open_offsets.items():
        for each in sorted(offsets):
            if each < again.read:
                again.opened(name, each)
    last = track_of(*position_of(again))
    for name, offsets in open_offsets.items():
        assert all(last.left_for(name, each) for each in offsets)


@pytest.mark.parametrize(
    "note",
    [
        *("", "x", "[]", "{}", "null", '{"read":9}', '{"read":"9","behind":{"a":5}}'),
        *('{"read":9,"behind":{}}', '{"read":9,"behind":{"a":4}}', '{"read":9,"behind":[5]}'),
        *('{"read":9,"behind":{"a":10}}', '{"read":9,"behind":{"a":true}}'),
        '{"read":5,"behind":{"a":5}}',
    ],
)
def test_a_note_that_is_not_ours_counts_as_none(note: str) -> None:
    assert track_of(5, note) == Track(5, 5)
