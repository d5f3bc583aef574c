"""The judges of a run of drains, in memory: a good history is clean, and each fault is seen."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos_drains.history import Entry, History, life_of, read_life
from tests.chaos_drains.rehearsal import BACK_AT, LOST_AT, TEAM, Told, rehearse, time_ms
from tests.chaos_drains.verdict import JUDGES, judge
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.drains import (
    DrainSessionChanged,
    SessionState,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.placing import PlacementMeasured
from walras_contracts.work import (
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
)


@pytest.fixture
def told() -> Told:
    return rehearse()


def change(
    history: History, model: type[Any], wanted: Callable[[Any], bool], **values: Any
) -> None:
    """Change the first record that is wanted: `step`, or fields of its event."""
    place, entry = found(history, model, wanted)
    step = values.pop("step", entry.step)
    assert entry.event is not None
    event = entry.event.model_copy(update=values)
    history.entries[model.TOPIC][place] = replace(
        entry, step=step, stamp_ms=time_ms(step) + 50, event=event
    )


def drop(history: History, model: type[Any], wanted: Callable[[Any], bool]) -> None:
    place, _ = found(history, model, wanted)
    del history.entries[model.TOPIC][place]


def found(history: History, model: type[Any], wanted: Callable[[Any], bool]) -> tuple[int, Entry]:
    for place, entry in enumerate(history.entries[model.TOPIC]):
        if isinstance(entry.event, model) and wanted(entry.event):
            return place, entry
    raise AssertionError(f"the history has no {model.__name__} to falsify")


def seen_by(history: History) -> set[str]:
    return {name for name, faults in judge(history).faults.items() if faults}


def test_a_history_as_it_must_be_is_clean(told: Told) -> None:
    verdict = judge(told.history)
    assert verdict.lines() == []
    assert verdict.figures["drains begun"] == 1
    assert verdict.figures["parts lost with their node"] == 1
    assert verdict.figures["longest silence under a lease, ms"] == 6_000
    assert verdict.figures["processes"] == 4
    assert verdict.ends == {"freed": 1}
    assert verdict.outcomes == {"vacated": 3, "lost": 1}


def given_up_at(told: Told, step: int) -> None:
    change(
        told.history,
        JobStatusChanged,
        lambda e: e.job == "b" and e.state is JobState.PENDING,
        step=step,
    )


def test_a_lease_may_stand_for_the_timeout_and_one_cycle(told: Told) -> None:
    # The last report is in step 11, 6 s are over at step 23: one cycle later it must be gone.
    given_up_at(told, LOST_AT)
    assert seen_by(told.history) == set()


def test_a_lease_that_outlives_its_holder_by_more_is_seen(told: Told) -> None:
    given_up_at(told, LOST_AT + 1)
    assert "outlived its holder" in seen_by(told.history)


def test_a_hole_in_the_barriers_does_not_count_as_silence(told: Told) -> None:
    behind = {step: ms for step, ms in told.history.barriers.items() if step >= LOST_AT - 4}
    told.history.barriers |= {step: ms + 10_000 for step, ms in behind.items()}
    # Silence is counted from the hole on: nothing is lost there, and what is given up is early.
    assert "released early" in seen_by(told.history)


def test_a_lease_that_is_given_up_before_the_timeout_is_seen(told: Told) -> None:
    given_up_at(told, LOST_AT - 2)
    assert "released early" in seen_by(told.history)


def test_a_lease_that_is_given_up_while_its_agent_lives_is_seen(told: Told) -> None:
    drop(told.history, LeaseStatusChanged, lambda e: e.lease == "c1")
    assert {"released early", "never freed"} <= seen_by(told.history)


def gang_on_a_lost_node(told: Told) -> None:
    """Job c has a part on n2, too."""
    place, entry = found(told.history, LeaseGranted, lambda e: e.lease == "c1")
    assert isinstance(entry.event, LeaseGranted)
    part = entry.event.model_copy(update={"node": "n2", "devices": (2,)})
    told.history.entries["leases"].insert(place, replace(entry, event=part, key="c1/n2"))
    figures = told.history.entries[PlacementMeasured.TOPIC]
    told.history.entries[PlacementMeasured.TOPIC] = [e for e in figures if e.step < 9]
    told.status(BACK_AT + 1, "c", ("c1", "n2"), LeaseState.FREED, LeaseOutcome.LOST)


def test_a_gang_that_lost_a_part_and_is_not_asked_to_leave_is_seen(told: Told) -> None:
    gang_on_a_lost_node(told)
    assert seen_by(told.history) == {"outlived its holder"}


def test_a_gang_that_lost_a_part_and_is_asked_to_leave_is_none(told: Told) -> None:
    gang_on_a_lost_node(told)
    told.vacate(LOST_AT, "c", "c1")
    assert seen_by(told.history) == set()
    stays = VacateWithdrawn(lease="c1", job="c", team=TEAM, withdrawn_ms=time_ms(LOST_AT))
    told.add(LOST_AT, stays)
    assert seen_by(told.history) == {"outlived its holder"}


def test_a_process_that_lives_on_without_its_lease_is_seen(told: Told) -> None:
    lives = told.history.lives
    lives[-1] = replace(lives[-1], last_ms=time_ms(LOST_AT) + 60)
    assert "ran without a lease" in seen_by(told.history)


def test_a_device_that_is_granted_before_it_is_freed_is_seen(told: Told) -> None:
    change(told.history, LeaseGranted, lambda e: e.lease == "c1", step=7)
    assert "held twice" in seen_by(told.history)


def test_a_device_that_two_leases_have_is_seen(told: Told) -> None:
    change(told.history, LeaseGranted, lambda e: e.lease == "b2", devices=(1,))
    assert "held twice" in seen_by(told.history)


def test_a_device_of_a_lost_node_that_is_granted_again_is_seen(told: Told) -> None:
    change(told.history, LeaseGranted, lambda e: e.lease == "b2", node="n2", devices=(0,))
    assert "held twice" in seen_by(told.history)


def test_more_held_and_reserved_than_present_is_seen(told: Told) -> None:
    change(told.history, PlacementMeasured, lambda e: e.cycle == 5, reserved_macc=6_000)
    assert seen_by(told.history) == {"over supply"}


def test_a_start_where_more_is_held_than_may_be_used_is_seen(told: Told) -> None:
    for name in ("n1", "n2"):
        told.node(LOST_AT, name, lost=True)
    assert [fault for fault in judge(told.history).lines() if "was started" not in fault] == []
    assert seen_by(told.history) == {"over supply"}


def test_open_devices_may_be_reserved_where_nothing_more_can_start(told: Told) -> None:
    # n2 is lost: four devices may be used, four are held, one of them on n2.
    told.node(LOST_AT, "n2", lost=True)
    change(told.history, PlacementMeasured, lambda e: e.cycle == LOST_AT + 1, reserved_macc=1_000)
    assert seen_by(told.history) == set()


def test_a_device_that_is_not_there_and_held_is_seen(told: Told) -> None:
    change(told.history, LeaseGranted, lambda e: e.lease == "b2", devices=(4,))
    assert seen_by(told.history) == {"over supply"}


def test_a_count_of_placement_that_is_not_the_logs_is_seen(told: Told) -> None:
    change(told.history, PlacementMeasured, lambda e: e.cycle == 20, held_macc=4_000)
    assert seen_by(told.history) == {"over supply"}


def test_a_job_that_runs_twice_at_a_time_is_seen(told: Told) -> None:
    lives = told.history.lives
    lives[-1] = replace(lives[-1], last_ms=time_ms(27))
    assert {"ran twice", "ran without a lease"} <= seen_by(told.history)


def test_a_part_that_is_started_twice_is_seen(told: Told) -> None:
    life = told.history.lives[0]
    told.history.lives.append(replace(life, pid=99))
    assert seen_by(told.history) == {"started twice"}
    told.history.lives[-1] = replace(life, pid=99, is_first=False)
    assert seen_by(told.history) == set()


def of_c(seq: int) -> Callable[[UsageMetered], bool]:
    return lambda usage: usage.lease == "c1" and usage.seq == seq


def test_use_that_overlaps_by_a_millisecond_is_seen(told: Told) -> None:
    _, entry = found(told.history, UsageMetered, of_c(1))
    assert isinstance(entry.event, UsageMetered)
    start_ms = entry.event.start_ms - 1
    change(told.history, UsageMetered, of_c(1), start_ms=start_ms)
    assert seen_by(told.history) == {"use overlaps or is missing"}


@pytest.mark.parametrize(
    ("gap_ms", "faults"), [(500, set()), (501, {"use overlaps or is missing"})]
)
def test_a_gap_beyond_the_heartbeat_is_seen(told: Told, gap_ms: int, faults: set[str]) -> None:
    _, entry = found(told.history, UsageMetered, of_c(1))
    assert isinstance(entry.event, UsageMetered)
    change(told.history, UsageMetered, of_c(1), start_ms=entry.event.start_ms + gap_ms)
    assert seen_by(told.history) == faults


def test_use_that_is_told_twice_is_none(told: Told) -> None:
    told.history.entries["usage"] += told.history.entries["usage"][:2]
    assert seen_by(told.history) == set()


def test_use_that_is_told_with_two_bodies_is_seen(told: Told) -> None:
    _, entry = found(told.history, UsageMetered, of_c(1))
    assert entry.event is not None
    other = entry.event.model_copy(update={"billable": False})
    told.history.entries["usage"].append(replace(entry, event=other))
    assert seen_by(told.history) == {"use numbered wrong"}


def test_use_that_is_missing_is_seen(told: Told) -> None:
    drop(told.history, UsageMetered, of_c(0))
    assert {"use numbered wrong", "not metered"} <= seen_by(told.history)


def test_use_that_ends_before_the_part_is_freed_is_seen(told: Told) -> None:
    drop(told.history, UsageMetered, of_c(1))
    assert seen_by(told.history) == {"not metered"}


def test_use_that_a_start_still_pays_for_behind_its_end_is_none_of_a_process(told: Told) -> None:
    _, entry = found(told.history, UsageMetered, of_c(1))
    last = entry.event
    assert isinstance(last, UsageMetered)
    rest = {"seq": 2, "start_ms": last.end_ms, "end_ms": last.end_ms + 60_000, "running_ms": 0}
    told.history.entries["usage"].append(replace(entry, event=last.model_copy(update=rest)))
    assert seen_by(told.history) == set()
    ran = rest | {"running_ms": 60_000}
    told.history.entries["usage"][-1] = replace(entry, event=last.model_copy(update=ran))
    assert seen_by(told.history) == {"not metered"}


def warned_or_freed(state: SessionState) -> Callable[[DrainSessionChanged], bool]:
    return lambda event: event.state is state


def test_a_drain_without_an_end_is_seen(told: Told) -> None:
    drop(told.history, DrainSessionChanged, warned_or_freed(SessionState.FREED))
    assert seen_by(told.history) == {"drain does not end"}


def test_a_drain_that_ends_more_than_five_seconds_late_is_seen(told: Told) -> None:
    freed = warned_or_freed(SessionState.FREED)
    change(told.history, DrainSessionChanged, freed, changed_ms=time_ms(24))
    assert seen_by(told.history) == set()
    change(told.history, DrainSessionChanged, freed, changed_ms=time_ms(24) + 1)
    assert seen_by(told.history) == {"drain does not end"}


def test_a_drain_that_goes_on_behind_its_end_is_seen(told: Told) -> None:
    told.session(10, "a", "a1", SessionState.WAITING)
    told.session(11, "a", "a1", SessionState.FREED)
    assert seen_by(told.history) == {"drain does not end"}


def test_a_drain_that_is_freed_before_its_parts_is_seen(told: Told) -> None:
    change(told.history, DrainSessionChanged, warned_or_freed(SessionState.FREED), step=7)
    assert seen_by(told.history) == {"freed too soon"}


def test_a_part_that_is_freed_twice_is_seen(told: Told) -> None:
    told.status(35, "c", ("c1", "n1"), LeaseState.FREED, LeaseOutcome.VACATED)
    assert seen_by(told.history) == {"freed wrong"}


def test_a_part_that_goes_on_when_it_is_freed_is_seen(told: Told) -> None:
    told.status(35, "c", ("c1", "n1"), LeaseState.RUNNING)
    assert seen_by(told.history) == {"freed wrong"}


def test_a_part_that_is_told_freed_again_in_the_same_words_is_none(told: Told) -> None:
    told.history.entries["lease.status"].append(told.history.entries["lease.status"][-1])
    assert seen_by(told.history) == set()


def test_a_process_that_lives_when_its_part_is_freed_is_seen(told: Told) -> None:
    place = next(i for i, life in enumerate(told.history.lives) if life.lease == "c1")
    life = told.history.lives[place]
    told.history.lives[place] = replace(life, last_ms=time_ms(34) - 99)
    assert seen_by(told.history) == {"alive when freed"}


def test_every_judge_is_shown_a_fault_here() -> None:
    """Names of the judges that the tests above expect; a new one needs a canary, too."""
    text = Path(__file__).read_text("utf-8")
    assert [name for name in JUDGES if f'"{name}"' not in text] == []


def test_evidence_that_was_cut_off_counts_up_to_there() -> None:
    lines = [f"start 100 {TEAM} a first", "step 125", "step 15"]
    life = life_of("a1@n1@7", lines[:2], 1_000)
    assert life is not None
    assert (life.start_ms, life.last_ms, life.pid, life.is_first) == (1_100, 1_125, 7, True)
    assert life_of("a1@n1@7", lines, 1_000) == life
    assert life_of("a1@n1@7", [], 0) is None
    assert life_of("a1@n1@7", ["start 10"], 0) is None


def test_a_first_line_that_was_cut_off_is_no_evidence(tmp_path: Path) -> None:
    """Half of `first` would be a child."""
    path = tmp_path / "a1@n1@7"
    path.write_text(f"start 100 {TEAM} a fir", "utf-8")
    assert read_life(path, 0) is None
    path.write_text(f"start 100 {TEAM} a first\nstep 1", "utf-8")
    life = read_life(path, 0)
    assert life is not None
    assert (life.is_first, life.last_ms) == (True, 100)


def test_silence_needs_a_first_word(told: Told) -> None:
    """A node that never reported is not expected to."""
    told.history.entries[NodeHealthReported.TOPIC] = [
        e for e in told.history.entries[NodeHealthReported.TOPIC] if e.key == "n1"
    ]
    given_up_at(told, 33)
    assert "outlived its holder" not in seen_by(told.history)


def test_reasons_are_counted_by_request(told: Told) -> None:
    told.vacate(12, "c", "c1")
    assert judge(told.history).reasons == {"quota_lost": 2}
    drop(told.history, VacateRequested, lambda e: e.lease == "c1")
    assert judge(told.history).reasons == {"quota_lost": 1}
