"""The simulated fleet alone: what runs, what is metered, when devices are free."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.event import Event
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
    VacateRequested,
    WorkClass,
)
from walras_node_agent.fleet import USAGE_INTERVAL_MS, pieces
from walras_node_agent.settings import Settings
from walras_node_agent.wiring import FLEET_DONE, build
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import Barrier, Output, emit, tombstone

START_MS = 1_728_000_000
MINUTE_MS = 60_000


class Bench:
    """The fleet on a log; grants and vacates are given by hand."""

    def __init__(self, *, interval_ms: int = MINUTE_MS, crash: bool = False) -> None:
        self.log = MemoryLog(load_topics())
        self._spec = build(Settings(kafka_bootstrap="none", interval_ms=interval_ms))
        self._runner = MemoryRunner(self._spec, self.log)
        self._crash = crash
        self._number = -1
        self._read: dict[tuple[str, int], int] = {}
        self.usage: list[UsageMetered] = []
        self.statuses: list[LeaseStatusChanged] = []
        self.drains: list[DrainStatusChanged] = []

    def step(self, at_ms: int, *given: Output) -> list[Event]:
        """Do a step at ``at_ms`` after the start; return its events."""
        self._number += 1
        self.log.append(given)
        for topic in ("leases", "vacate"):
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self._number, START_MS + at_ms))
        if self._crash:
            self._runner = MemoryRunner(self._spec, self.log)
        assert self._runner.advance() == 1
        found: list[Event] = []
        for topic in ("lease.status", "drain.status", "usage"):
            for partition in self.log.partitions(topic):
                for entry in self.log.read(topic, partition, self._read.get((topic, partition), 0)):
                    self._read[topic, partition] = entry.offset + 1
                    assert entry.barrier is None, "barriers here are written by the outside"
                    if entry.payload is not None:
                        found.append(decode_inner(entry.type, entry.payload))
        self.usage += [e for e in found if isinstance(e, UsageMetered)]
        self.statuses += [e for e in found if isinstance(e, LeaseStatusChanged)]
        self.drains += [e for e in found if isinstance(e, DrainStatusChanged)]
        return found

    def drained(self) -> list[tuple[str, int]]:
        """How the drains went: states and times, as told for the first node."""
        first = min((d.node for d in self.drains), default="")
        return [(d.state.value, d.at_ms - START_MS) for d in self.drains if d.node == first]

    def told(self) -> list[tuple[str, str, int, int | None]]:
        return [
            (s.state.value, s.outcome, s.at_ms - START_MS, s.remaining_run_ms)
            for s in self.statuses
        ]

    def metered(self) -> list[tuple[int, int, str, bool]]:
        return [
            (u.start_ms - START_MS, u.end_ms - START_MS, u.work_class.value, u.billable)
            for u in sorted(self.usage, key=lambda u: u.start_ms)
        ]


def part(
    *,
    node: str = "n1",
    number: int = 0,
    parts: int = 1,
    run_ms: int | None = 90_000,
    work_class: WorkClass = WorkClass.MARKET,
) -> LeaseGranted:
    return LeaseGranted(
        lease="l1",
        node=node,
        part=number,
        parts=parts,
        attempt=1,
        job="j1",
        team="t1",
        pool="p",
        market="a",
        work_class=work_class,
        devices=(0,),
        size_macc=1000,
        limit_micro=None,
        granted_ms=START_MS,
        remaining_run_ms=run_ms,
    )


def vacate(at_ms: int) -> Output:
    return emit(
        VacateRequested(
            lease="l1", job="j1", team="t1", reason="quota_lost", requested_ms=START_MS + at_ms
        )
    )


@settings(deadline=None, max_examples=300)
@given(start=st.integers(0, 10**9), length=st.integers(0, 10**6))
def test_pieces_cover_an_interval_exactly_and_cross_no_boundary(start: int, length: int) -> None:
    cut = pieces(start, start + length)

    assert [a for a, _ in cut] == ([start, *[b for _, b in cut[:-1]]] if length else [])
    assert sum(b - a for a, b in cut) == length
    assert all(0 < b - a <= USAGE_INTERVAL_MS for a, b in cut)
    assert all(a // SETTLEMENT_MS == (b - 1) // SETTLEMENT_MS for a, b in cut)


def test_a_lease_runs_as_long_as_it_says_and_ends_to_the_millisecond() -> None:
    bench = Bench()
    bench.step(0, emit(part()))
    bench.step(60_000)
    bench.step(120_000)

    assert bench.told() == [("running", "", 0, 90_000), ("freed", "finished", 90_000, 0)]
    assert bench.metered() == [(0, 60_000, "market", True), (60_000, 90_000, "market", True)]
    assert [u.seq for u in bench.usage] == [0, 1]


def test_an_end_at_the_border_of_the_window_is_told_in_that_window() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=60_000)))

    assert bench.told()[-1] == ("freed", "finished", 60_000, 0)


def test_a_lease_without_work_starts_and_ends_unmetered() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=0)))

    assert [s[0] for s in bench.told()] == ["running", "freed"]
    assert bench.usage == []


def test_a_gang_starts_when_all_of_its_parts_are_there() -> None:
    bench = Bench()
    assert bench.step(0, emit(part(parts=2))) == []
    bench.step(60_000, emit(part(parts=2, number=1, node="n2")))

    assert bench.told() == [("running", "", 60_000, 90_000)] * 2
    assert {u.node for u in bench.usage} == {"n1", "n2"}


def test_a_vacated_lease_is_overhang_until_it_is_free_a_minute_later() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=600_000)))
    bench.step(60_000, vacate(60_000))
    bench.step(120_000)

    assert bench.told()[-1] == ("freed", "vacated", 120_000, 480_000)
    assert bench.metered() == [
        (0, 60_000, "market", True),
        (60_000, 70_000, "overhang", True),
        (70_000, 120_000, "overhang", False),
    ]
    assert bench.drained() == [("warned", 60_000), ("waiting", 70_000), ("freed", 120_000)]


def test_opportunistic_work_is_not_billed_while_it_leaves() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None, work_class=WorkClass.OPPORTUNISTIC)))
    bench.step(60_000, vacate(60_000))
    bench.step(120_000)

    assert bench.told()[-1] == ("freed", "vacated", 120_000, None)
    assert bench.metered() == [
        (0, 60_000, "opportunistic", True),
        (60_000, 70_000, "overhang", False),
        (70_000, 120_000, "overhang", False),
    ]


def test_a_vacated_lease_that_ends_first_is_finished() -> None:
    bench = Bench()
    bench.step(0, emit(part()))
    bench.step(60_000, vacate(60_000))
    bench.step(120_000)

    assert [s[:3] for s in bench.told()][1:] == [("freed", "finished", 90_000)]


def test_only_the_first_request_to_leave_counts() -> None:
    bench = Bench(interval_ms=30_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(30_000, vacate(30_000))
    bench.step(60_000, vacate(60_000))
    bench.step(90_000)

    assert bench.told()[-1][:3] == ("freed", "vacated", 90_000)


@pytest.mark.parametrize("crash", [False, True])
def test_a_drain_is_billed_for_a_grace_after_its_warning_whatever_the_windows(crash: bool) -> None:
    bench = Bench(interval_ms=5_000, crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(5_000, vacate(5_000))
    for at_ms in (10_000, 15_000, 20_000, 60_000, 65_000):
        bench.step(at_ms)

    assert bench.drained() == [("warned", 5_000), ("waiting", 15_000), ("freed", 65_000)]
    billed = [u.end_ms - START_MS for u in bench.usage if u.billable]
    unbilled = [u.start_ms - START_MS for u in bench.usage if not u.billable]
    assert (max(billed), min(unbilled)) == (15_000, 15_000)
    assert sorted(u.seq for u in bench.usage) == list(range(len(bench.usage)))


def test_use_is_cut_inside_a_window_where_the_billing_grace_ends() -> None:
    bench = Bench(interval_ms=7_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(7_000, vacate(7_000))
    bench.step(14_000)

    assert bench.metered()[-2:] == [
        (14_000, 17_000, "overhang", True),
        (17_000, 21_000, "overhang", False),
    ]


def test_every_node_of_a_gang_tells_of_the_one_drain_of_its_lease() -> None:
    bench = Bench()
    bench.step(0, emit(part(parts=2, run_ms=None)), emit(part(parts=2, number=1, node="n2")))
    bench.step(60_000, vacate(60_000))
    bench.step(120_000)

    assert {(d.node, d.state.value) for d in bench.drains} == {
        (node, state) for node in ("n1", "n2") for state in ("warned", "waiting", "freed")
    }
    assert len({d.session for d in bench.drains}) == 1
    assert {(d.warned_ms - START_MS, d.outcome) for d in bench.drains} == {(60_000, "")}


def test_a_lease_that_leaves_before_it_has_run_is_drained_all_the_same() -> None:
    bench = Bench()
    bench.step(0, emit(part(parts=2, run_ms=None)))
    bench.step(60_000, vacate(60_000))
    bench.step(120_000)

    assert bench.drained() == [("warned", 60_000), ("freed", 120_000)]
    assert bench.usage == []


def test_a_lease_that_is_left_alone_is_not_drained() -> None:
    bench = Bench()
    bench.step(0, emit(part()))
    bench.step(60_000)

    assert bench.drains == []
    assert bench.told()[-1][:2] == ("freed", "finished")


def test_a_class_change_cuts_usage_and_keeps_the_sequence() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None)))
    bench.step(60_000, emit(part(run_ms=None, work_class=WorkClass.OPPORTUNISTIC)))
    bench.step(120_000, emit(part(run_ms=None)))

    assert [u.work_class.value for u in bench.usage] == ["market", "opportunistic", "market"]
    assert [u.seq for u in bench.usage] == [0, 1, 2]


@pytest.mark.parametrize("crash", [False, True])
def test_a_move_to_another_pool_cuts_usage_where_it_takes_effect(crash: bool) -> None:
    bench = Bench(crash=crash)
    moved = part(run_ms=None).model_copy(update={"pool": "q"})
    bench.step(0, emit(part(run_ms=None)))
    bench.step(60_000, emit(moved))
    bench.step(120_000, vacate(120_000))

    told = [(u.start_ms - START_MS, u.pool, u.work_class.value, u.seq) for u in bench.usage]
    assert told == [
        (0, "p", "market", 0),
        (60_000, "q", "market", 1),
        (120_000, "q", "overhang", 2),
        (130_000, "q", "overhang", 3),
    ]


def test_early_late_and_missing_barriers_leave_neither_gap_nor_overlap() -> None:
    bench = Bench(interval_ms=5_000)
    bench.step(0, emit(part(run_ms=None)))
    for at_ms in (4_997, 10_004, 400_000, 400_001):
        bench.step(at_ms)

    intervals = [(a, b) for a, b, _, _ in bench.metered()]
    assert [a for a, _ in intervals] == [0, *[b for _, b in intervals[:-1]]]
    assert intervals[-1][1] == 405_001
    assert [u.seq for u in bench.usage] == list(range(len(intervals)))


def test_a_record_written_again_after_the_end_does_not_start_the_lease_again() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    assert bench.step(60_000, emit(part(run_ms=1, work_class=WorkClass.OPPORTUNISTIC))) == []


def test_nothing_is_remembered_of_a_lease_whose_record_ended() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    bench.step(60_000, tombstone(LeaseGranted, "l1/n1", "n1"))

    assert list(state_digest_input(bench.log, "node_agent")) == ["0/~clock"]
    entries = [
        entry
        for partition in bench.log.partitions("lease.status")
        for entry in bench.log.read("lease.status", partition, 0)
    ]
    assert entries[-1].payload is None
    assert entries[-1].key == "l1/n1"


def test_a_part_that_changes_its_size_while_it_is_held_breaks_an_invariant() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None)))
    with pytest.raises(InvariantBrokenError, match="size"):
        bench.step(60_000, emit(part(run_ms=None).model_copy(update={"size_macc": 1})))


def test_done_says_which_steps_were_simulated() -> None:
    bench = Bench()
    bench.step(0)
    bench.step(60_000)

    barriers = [entry.barrier for entry in bench.log.read(FLEET_DONE, 0, 0)]
    assert [b.number for b in barriers if b is not None] == [0, 1]


@settings(deadline=None, max_examples=60)
@given(
    jumps=st.lists(st.integers(1, 130_000), min_size=1, max_size=12),
    run_ms=st.one_of(st.none(), st.integers(0, 500_000)),
    leave=st.integers(0, 12),
)
def test_run_time_is_conserved_whatever_the_barriers_and_crashes(
    jumps: list[int], run_ms: int | None, leave: int
) -> None:
    benches = [Bench(interval_ms=30_000), Bench(interval_ms=30_000, crash=True)]
    for bench in benches:
        at_ms = 0
        bench.step(0, emit(part(run_ms=run_ms)))
        for number, jump in enumerate(jumps):
            at_ms += jump
            bench.step(at_ms, *([vacate(at_ms)] if number == leave else []))
        ran_ms = sum(u.end_ms - u.start_ms for u in bench.usage)
        assert sorted(u.seq for u in bench.usage) == list(range(len(bench.usage)))
        if run_ms is not None and bench.told()[-1][0] == "freed":
            left_ms = bench.told()[-1][3]
            assert left_ms is not None
            assert ran_ms + left_ms == run_ms

    assert benches[0].log.entries == benches[1].log.entries
