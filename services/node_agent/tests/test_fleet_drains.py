"""The simulated fleet drains its leases: who leaves when, what is told, what is billed."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.node_agent.tests.fleet_bench import START_MS, Bench, drain, part
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, DrainCommanded
from walras_contracts.work import LeaseGranted, WorkClass
from walras_node_agent.drains import STUCK_MS
from walras_runtime.records import emit, tombstone

CANCEL, CONFIRM, RESUME = DrainCommand.CANCEL, DrainCommand.CONFIRM, DrainCommand.RESUME


def test_a_lease_that_has_to_leave_is_overhang_until_its_warning_is_over() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=600_000)))
    bench.step(60_000, drain(60_000))
    bench.step(120_000)

    assert bench.told()[-1] == ("freed", "vacated", 120_000, 600_000)
    assert bench.metered() == [
        (0, 60_000, "market", True),
        (60_000, 70_000, "overhang", True),
        (70_000, 120_000, "overhang", False),
    ]


@pytest.mark.parametrize(
    ("drainability", "told"),
    [
        (Drainability.RESTART, [("waiting", 60_000), ("freed", 120_000)]),
        (Drainability.CHECKPOINT, [("checkpointing", 60_000), ("freed", 120_000)]),
        (
            Drainability.NONE,
            [("warned", 60_000), ("terminating", 120_000), ("freed", 150_000)],
        ),
    ],
)
def test_each_kind_of_job_leaves_in_its_own_way(
    drainability: Drainability, told: list[tuple[str, int]]
) -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None, drainability=drainability)))
    bench.step(60_000, drain(60_000))
    bench.steps(120_000, 180_000)

    assert bench.drained() == told
    forced = drainability is Drainability.NONE
    assert bench.drains[-1].outcome == ("forced" if forced else "")
    bench.check_usage()


@pytest.mark.parametrize("crash", [False, True])
def test_what_comes_after_the_warning_is_exact_whatever_the_windows(crash: bool) -> None:
    bench = Bench(interval_ms=5_000, crash=crash)
    bench.step(0, emit(part(run_ms=None, drainability=Drainability.NONE)))
    bench.step(5_000, drain(5_000, warning_ms=7_000, terminate_ms=8_500))
    bench.steps(*range(10_000, 45_000, 5_000))

    assert bench.drained() == [("warned", 5_000), ("terminating", 15_000), ("freed", 23_500)]
    bench.check_usage()
    assert bench.metered()[-1][1:] == (23_500, "overhang", False)


def test_a_job_that_saves_sooner_leaves_sooner() -> None:
    bench = Bench(interval_ms=5_000, save_ms=12_000)
    bench.step(0, emit(part(run_ms=None, drainability=Drainability.CHECKPOINT)))
    bench.step(5_000, drain(5_000))
    bench.steps(10_000, 15_000, 20_000)

    assert bench.drained()[-1] == ("freed", 20_000)


def test_opportunistic_work_is_not_billed_while_it_leaves() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=None, work_class=WorkClass.OPPORTUNISTIC)))
    bench.step(60_000, drain(60_000))
    bench.step(120_000)

    assert bench.told()[-1] == ("freed", "vacated", 120_000, None)
    assert bench.metered() == [
        (0, 60_000, "opportunistic", True),
        (60_000, 70_000, "overhang", False),
        (70_000, 120_000, "overhang", False),
    ]


@pytest.mark.parametrize("drainability", list(Drainability))
def test_a_lease_that_ends_before_its_warning_does_is_finished(drainability: Drainability) -> None:
    bench = Bench()
    bench.step(0, emit(part(drainability=drainability)))
    bench.step(60_000, drain(60_000))
    bench.step(120_000)

    assert [s[:3] for s in bench.told()][1:] == [("freed", "finished", 90_000)]
    assert bench.drained()[-1] == ("freed", 90_000)


def test_a_command_that_is_said_again_changes_nothing() -> None:
    bench = Bench(interval_ms=30_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(30_000, drain(30_000))
    bench.step(60_000, drain(30_000))
    bench.step(90_000)

    assert bench.told()[-1][:3] == ("freed", "vacated", 90_000)


@pytest.mark.parametrize("crash", [False, True])
def test_a_drain_is_billed_for_a_grace_after_its_warning_whatever_the_windows(crash: bool) -> None:
    bench = Bench(interval_ms=5_000, crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(5_000, drain(5_000))
    bench.steps(10_000, 15_000, 20_000, 60_000, 65_000)

    assert bench.drained()[0] == ("waiting", 5_000)
    assert bench.drained()[-1] == ("freed", 65_000)
    billed = [u.end_ms - START_MS for u in bench.usage if u.billable]
    unbilled = [u.start_ms - START_MS for u in bench.usage if not u.billable]
    assert (max(billed), min(unbilled)) == (15_000, 15_000)
    bench.check_usage()


def test_use_is_cut_inside_a_window_where_the_billing_grace_of_the_command_ends() -> None:
    bench = Bench(interval_ms=7_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(7_000, drain(7_000, billing_grace_ms=9_000))
    bench.step(14_000)

    assert bench.metered()[-2:] == [
        (14_000, 16_000, "overhang", True),
        (16_000, 21_000, "overhang", False),
    ]


def test_a_drain_that_goes_on_says_every_ten_seconds_what_it_waits_for() -> None:
    bench = Bench(interval_ms=5_000)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(5_000, drain(5_000))
    bench.steps(*range(10_000, 70_000, 5_000))

    assert [at_ms for _, at_ms in bench.drained()] == [*range(5_000, 65_000, 10_000), 65_000]
    assert all(d.blockers for d in bench.drains[:-1])
    assert bench.drains[-1].blockers == ()


def test_every_node_of_a_gang_tells_of_the_one_drain_of_its_lease() -> None:
    bench = Bench()
    bench.step(0, emit(part(parts=2, run_ms=None)), emit(part(parts=2, number=1, node="n2")))
    bench.step(60_000, drain(60_000), drain(60_000, node="n2"))
    bench.step(120_000)

    assert {(d.node, d.state.value) for d in bench.drains} == {
        (node, state) for node in ("n1", "n2") for state in ("waiting", "freed")
    }
    assert len(bench.drains) == 4
    assert {(d.session, d.warned_ms - START_MS, d.outcome) for d in bench.drains} == {
        ("s1", 60_000, "")
    }


def test_a_lease_that_never_ran_is_free_at_once_when_it_is_drained() -> None:
    bench = Bench()
    bench.step(0, emit(part(parts=2, run_ms=None)))
    bench.step(60_000, drain(60_000))

    assert bench.drained() == [("freed", 60_000)]
    assert bench.told() == [("freed", "vacated", 60_000, None)]
    assert bench.usage == []


@pytest.mark.parametrize("crash", [False, True])
def test_a_cancelled_drain_leaves_the_lease_running_and_billed_again(crash: bool) -> None:
    bench = Bench(interval_ms=20_000, crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(20_000, drain(20_000))
    bench.step(40_000, drain(20_000, CANCEL))
    bench.steps(*range(60_000, 200_000, 20_000))

    assert bench.drained()[-1] == ("cancelled", 40_000)
    assert bench.metered()[1:4] == [
        (20_000, 30_000, "overhang", True),
        (30_000, 40_000, "overhang", False),
        (40_000, 60_000, "market", True),
    ]
    assert [s[0] for s in bench.told()] == ["running"]
    bench.check_usage()


def test_a_cancel_that_comes_too_late_is_rejected() -> None:
    bench = Bench(interval_ms=5_000)
    bench.step(0, emit(part(run_ms=None, drainability=Drainability.NONE)))
    bench.step(5_000, drain(5_000))
    bench.steps(65_000, 70_000)
    bench.step(75_000, drain(5_000, CANCEL))
    bench.steps(80_000, 90_000, 95_000)

    assert [(d.state.value, d.outcome) for d in bench.drains if d.outcome] == [
        ("terminating", "cancel_rejected"),
        ("freed", "forced"),
    ]


@pytest.mark.parametrize("said", [CONFIRM, RESUME])
def test_a_gang_holds_still_until_it_is_told_what_the_others_do(said: DrainCommand) -> None:
    bench = Bench(interval_ms=20_000)
    both = ("n1", "n2")
    parts = [part(parts=2, number=i, node=node, run_ms=None) for i, node in enumerate(both)]
    bench.step(0, *map(emit, parts))
    bench.step(20_000, *(drain(20_000, node=node) for node in both))
    bench.step(40_000, *(drain(20_000, CANCEL, node=node) for node in both))
    bench.steps(*range(60_000, 160_000, 20_000))
    assert bench.drained()[-1][0] == "cancelling"
    assert [s[0] for s in bench.told()] == ["running"] * 2
    bench.step(160_000, *(drain(20_000, said, node=node) for node in both))

    if said is CONFIRM:
        assert bench.drained()[-1] == ("cancelled", 160_000)
    else:
        # Its warning was over long ago.
        assert bench.drained()[-1] == ("freed", 160_000)


def test_a_gang_that_holds_goes_back_when_its_session_ends() -> None:
    bench = Bench(interval_ms=20_000)
    both = ("n1", "n2")
    parts = [part(parts=2, number=i, node=node, run_ms=None) for i, node in enumerate(both)]
    bench.step(0, *map(emit, parts))
    bench.step(20_000, *(drain(20_000, node=node) for node in both))
    bench.step(40_000, *(drain(20_000, CANCEL, node=node) for node in both))
    bench.step(60_000, *(tombstone(DrainCommanded, f"l1/{node}", node) for node in both))
    bench.steps(80_000, 100_000)

    assert bench.metered()[-1][2:] == ("market", True)


def test_a_command_for_a_lease_that_is_freed_is_answered() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    bench.step(60_000, drain(60_000))

    assert bench.drained() == [("freed", 60_000)]


@pytest.mark.parametrize("drainability", list(Drainability))
@pytest.mark.parametrize("crash", [False, True])
def test_a_drain_that_was_chosen_to_fail_frees_its_devices_late(
    drainability: Drainability, crash: bool
) -> None:
    bench = Bench(crash=crash, fail_drains_ppm=1_000_000)
    bench.step(0, emit(part(run_ms=600_000, drainability=drainability)))
    bench.step(60_000, drain(60_000))
    bench.steps(*range(120_000, 600_000, 60_000))

    late_ms = 160_000 if drainability is Drainability.NONE else 130_000
    failed = [d for d in bench.drains if d.state.value == "failed"]
    assert [(d.outcome, d.at_ms - START_MS) for d in failed] == [("device_not_freed", late_ms)]
    left_ms = 480_000 if drainability is Drainability.CHECKPOINT else 600_000
    assert bench.told()[1:] == [
        ("stuck", "", late_ms, left_ms),
        ("freed", "vacated", late_ms + STUCK_MS, left_ms),
    ]
    bench.check_usage()
    assert bench.metered()[-1][1] == late_ms + STUCK_MS
    assert not any(u.billable for u in bench.usage if u.start_ms - START_MS >= 70_000)


def test_the_share_of_drains_that_fail_is_that_of_the_setting() -> None:
    def failed(share_ppm: int) -> int:
        count = 0
        for number in range(40):
            bench = Bench(fail_drains_ppm=share_ppm)
            bench.step(0, emit(part(run_ms=None)))
            bench.step(60_000, drain(60_000, session=f"s{number}"))
            bench.step(120_000)
            count += any(d.state.value == "failed" for d in bench.drains)
        return count

    assert (failed(0), failed(1_000_000)) == (0, 40)
    assert 4 <= failed(300_000) <= 20


@pytest.mark.parametrize("drainability", list(Drainability))
@pytest.mark.parametrize("crash", [False, True])
def test_a_lease_and_its_warning_that_end_where_barriers_are_missing_end_in_their_order(
    drainability: Drainability, crash: bool
) -> None:
    bench = Bench(interval_ms=30_000, crash=crash)
    bench.step(0, emit(part(run_ms=30_008, drainability=drainability)))
    bench.step(1, drain(1))
    # Its warning is over at 90 000, and it ended long before.
    bench.step(90_000)

    assert bench.told()[1:] == [("freed", "finished", 30_008, 0)]
    assert bench.drained()[-1] == ("freed", 30_008)
    bench.check_usage()


@pytest.mark.parametrize("fail_drains_ppm", [0, 1_000_000])
@pytest.mark.parametrize("drainability", list(Drainability))
@pytest.mark.parametrize("crash", [False, True])
def test_a_lease_that_ended_where_barriers_were_missing_is_not_drained_afterwards(
    drainability: Drainability, crash: bool, fail_drains_ppm: int
) -> None:
    bench = Bench(interval_ms=30_000, crash=crash, fail_drains_ppm=fail_drains_ppm)
    bench.step(0, emit(part(run_ms=30_008, drainability=drainability)))
    bench.steps(*range(1, 8))
    # Simulated up to 30 007: the lease ends where no barrier is, and then it is to leave.
    bench.step(90_000, drain(90_000))
    bench.step(120_000)

    assert bench.told()[1:] == [("freed", "finished", 30_008, 0)]
    assert bench.drained() == [("freed", 90_000)]
    assert bench.metered(ran=True)[-1] == (30_007, 30_008, "market", True)
    bench.check_usage()


@pytest.mark.parametrize("crash", [False, True])
def test_what_ran_where_barriers_were_missing_ran_before_the_drain(crash: bool) -> None:
    bench = Bench(interval_ms=30_000, crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(90_000, drain(90_000))
    bench.step(120_000)

    assert bench.metered() == [
        (0, 30_000, "market", True),
        (30_000, 90_000, "market", True),
        (90_000, 100_000, "overhang", True),
        (100_000, 120_000, "overhang", False),
        (120_000, 150_000, "overhang", False),
    ]
    bench.check_usage()


@pytest.mark.parametrize("crash", [False, True])
def test_what_ran_before_the_record_ended_is_billed(crash: bool) -> None:
    bench = Bench(interval_ms=30_000, crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(90_000, tombstone(LeaseGranted, "l1/n1", "n1"))

    assert bench.told()[-1] == ("freed", "vacated", 90_000, None)
    assert bench.metered()[1:] == [(30_000, 90_000, "market", True)]


@settings(deadline=None, max_examples=60)
@example(  # Ends where barriers are missing, as its warning does.
    jumps=[1, 1, 1, 1, 1, 1, 1, 89_993],
    run_ms=30_008,
    said=(0, 12),
    drainability=Drainability.CHECKPOINT,
    fail_drains_ppm=0,
)
@given(
    jumps=st.lists(st.integers(1, 130_000), min_size=1, max_size=12),
    run_ms=st.one_of(st.none(), st.integers(0, 500_000)),
    said=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    drainability=st.sampled_from(Drainability),
    fail_drains_ppm=st.sampled_from([0, 500_000, 1_000_000]),
)
def test_run_time_that_was_saved_is_conserved_whatever_the_barriers_drains_and_crashes(
    jumps: list[int],
    run_ms: int | None,
    said: tuple[int, int],
    drainability: Drainability,
    fail_drains_ppm: int,
) -> None:
    benches = [
        Bench(interval_ms=30_000, crash=crash, fail_drains_ppm=fail_drains_ppm)
        for crash in (False, True)
    ]
    for bench in benches:
        at_ms = 0
        bench.step(0, emit(part(run_ms=run_ms, drainability=drainability)))
        for number, jump in enumerate(jumps):
            at_ms += jump
            leave, back = (number == each for each in said)
            bench.step(at_ms, *[drain(at_ms)] * leave, *[drain(at_ms, CANCEL)] * back)
        bench.check_usage()
        ran_ms = sum(u.running_ms or 0 for u in bench.usage)
        if run_ms is not None and bench.told()[-1][0] == "freed":
            _, outcome, _, left_ms = bench.told()[-1]
            stuck = any(s[0] == "stuck" for s in bench.told())
            assert left_ms is not None
            if outcome == "vacated" and drainability is not Drainability.CHECKPOINT:
                # Nothing of it was saved.
                assert left_ms == run_ms
            else:
                # While its devices are stuck, nothing runs.
                assert ran_ms + left_ms >= run_ms if stuck else ran_ms + left_ms == run_ms

    assert benches[0].log.entries == benches[1].log.entries
