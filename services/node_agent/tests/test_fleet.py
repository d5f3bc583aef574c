"""The simulated fleet without drains: what runs, what is metered, when devices are free."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.node_agent.tests.fleet_bench import START_MS, Bench, drain, part
from walras_contracts.demand import Drainability
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.work import LeaseGranted, WorkClass
from walras_node_agent.usage_pieces import USAGE_INTERVAL_MS, pieces
from walras_node_agent.wiring import FLEET_DONE
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import emit, tombstone


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
    bench.steps(60_000, 120_000)

    assert bench.told() == [("running", "", 0, 90_000), ("freed", "finished", 90_000, 0)]
    ran = [(0, 60_000, "market", True), (60_000, 90_000, "market", True)]
    assert bench.metered(ran=True) == ran
    assert [u.seq for u in bench.usage[:2]] == [0, 1]


def test_an_end_at_the_border_of_the_window_is_told_in_that_window() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=60_000)))

    assert bench.told()[-1] == ("freed", "finished", 60_000, 0)


def test_a_lease_without_work_starts_and_ends_and_ran_for_no_time() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=0)))

    assert [s[0] for s in bench.told()] == ["running", "freed"]
    assert bench.metered(ran=True) == []


def test_a_gang_starts_when_all_of_its_parts_are_there() -> None:
    bench = Bench()
    assert bench.step(0, emit(part(parts=2))) == []
    bench.step(60_000, emit(part(parts=2, number=1, node="n2")))

    assert bench.told() == [("running", "", 60_000, 90_000)] * 2
    assert {u.node for u in bench.usage} == {"n1", "n2"}


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
    bench.step(120_000, drain(120_000))

    told = [(u.start_ms - START_MS, u.pool, u.work_class.value, u.seq) for u in bench.usage]
    assert told == [
        (0, "p", "market", 0),
        (60_000, "q", "market", 1),
        (120_000, "q", "overhang", 2),
        (130_000, "q", "overhang", 3),
    ]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    "changed",
    [{"pool": "q"}, {"limit_micro": 7}, {"work_class": WorkClass.OPPORTUNISTIC}],
    ids=["pool", "limit", "class"],
)
def test_use_of_a_time_without_barriers_is_what_it_was_before_the_record_that_came_behind_it(
    crash: bool, changed: dict[str, object]
) -> None:
    """One window reaches 5 s; then barriers are missing until 60 s."""
    bench = Bench(crash=crash, interval_ms=5_000)
    before = part(run_ms=None)
    after = before.model_copy(update=changed)
    bench.step(0, emit(before))
    bench.step(60_000, emit(after))

    (name,) = changed
    told = [(u.start_ms - START_MS, u.end_ms - START_MS, getattr(u, name)) for u in bench.usage]
    old, new = getattr(before, name), getattr(after, name)
    assert told == [(0, 5_000, old), (5_000, 60_000, old), (60_000, 65_000, new)]
    bench.check_usage()


def test_early_late_and_missing_barriers_leave_neither_gap_nor_overlap() -> None:
    bench = Bench(interval_ms=5_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.steps(4_997, 10_004, 400_000, 400_001)

    bench.check_usage()
    assert bench.metered()[-1][1] == 405_001


def test_a_record_written_again_after_the_end_does_not_start_the_lease_again() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    bench.step(60_000, emit(part(run_ms=1, work_class=WorkClass.OPPORTUNISTIC)))
    assert len(bench.told()) == 2
    assert bench.metered(ran=True) == [(0, 1, "market", True)]


def test_nothing_is_remembered_of_a_lease_whose_record_ended() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    bench.step(60_000, tombstone(LeaseGranted, "l1/n1", "n1"))
    # What its start has to pay for is over by then.
    bench.step(300_001)

    assert list(state_digest_input(bench.log, "node_agent")) == ["0/~clock"]
    assert last_status(bench) == ("l1/n1", None)


@pytest.mark.parametrize("drainability", list(Drainability))
def test_a_lease_whose_record_ends_while_it_runs_leaves_unbilled_and_is_forgotten(
    drainability: Drainability,
) -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None, drainability=drainability)))
    bench.step(60_000, tombstone(LeaseGranted, "l1/n1", "n1"))

    # What ignores SIGTERM is killed half a minute later.
    ends_ms = 90_000 if drainability is Drainability.NONE else 60_000
    assert bench.told()[-1] == ("freed", "vacated", ends_ms, None)
    assert bench.metered()[1:] == [(60_000, 90_000, "overhang", False)] * (ends_ms == 90_000)
    assert bench.drains == []
    assert list(state_digest_input(bench.log, "node_agent")) == ["0/~clock"]
    assert last_status(bench) == ("l1/n1", None)


def last_status(bench: Bench) -> tuple[str, bytes | None]:
    entries = [
        entry
        for partition in bench.log.partitions("lease.status")
        for entry in bench.log.read("lease.status", partition, 0)
    ]
    return entries[-1].key, entries[-1].payload


def test_a_part_that_changes_its_size_while_it_is_held_breaks_an_invariant() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None)))
    with pytest.raises(InvariantBrokenError, match="size"):
        bench.step(60_000, emit(part(run_ms=None).model_copy(update={"size_macc": 1})))


def test_done_says_which_steps_were_simulated() -> None:
    bench = Bench()
    bench.steps(0, 60_000)

    barriers = [entry.barrier for entry in bench.log.read(FLEET_DONE, 0, 0)]
    assert [b.number for b in barriers if b is not None] == [0, 1]


def test_a_running_lease_writes_no_state() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None)))
    kept = dict(state_digest_input(bench.log, "node_agent"))
    bench.steps(60_000, 120_000)
    after = dict(state_digest_input(bench.log, "node_agent"))

    assert {key for key in after if after[key] != kept[key]} == {"0/~clock"}
