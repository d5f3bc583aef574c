"""The decisions of the agent: what the log says and what is seen, without a process or a file."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.node_agent.tests.grants import grant
from services.node_agent.tests.lives import RULES, command
from walras_contracts.drains import DrainCommand
from walras_contracts.work import LeaseGranted, LeaseState, LeaseStatusChanged, WorkClass
from walras_node_agent.agent.log_records import (
    Change,
    Table,
    follow_change,
    follow_table,
    went_back,
)
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.outgoing import Outgoing
from walras_node_agent.agent.recovery import (
    Start,
    acknowledged_entry,
    recover,
    start_entry,
    turn_entry,
    whole,
)
from walras_node_agent.part_life import Happened, Warn
from walras_node_agent.part_table import Effect, PartEvent, PartState

OFFSET_MS = 1_000_000_000


class Course:
    """A node that is led through events; everything it tells and does is kept."""

    def __init__(self, node: Node | None = None) -> None:
        self.node = node or Node("n1", 4, RULES, progress_ms=10_000, offset_ms=OFFSET_MS)
        self.now_ms = 0
        self.told: list[Outgoing] = []
        self.deeds: list[tuple[str, Any]] = []

    def take(self) -> None:
        turn = self.node.take_turn()
        self.told += turn.events
        self.deeds += turn.deeds

    def grant(self, part: LeaseGranted, held: dict[int, str] | None = None) -> None:
        self.node.grant(part, held or {}, self.now_ms)
        self.take()

    def happens(self, event: PartEvent, lease: str = "l1", **facts: Any) -> None:
        self.node.happens(lease, Happened(event, **facts), self.now_ms)
        self.take()

    def command(self, said: DrainCommand = DrainCommand.DRAIN, session: str = "s1") -> None:
        self.node.command(command(said, session), self.now_ms)
        self.take()

    def tick(self, at_ms: int, *, defer_usage: bool = False) -> None:
        self.now_ms = at_ms
        self.node.tick(at_ms, defer_usage=defer_usage)
        self.take()

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(e.payload) for e in self.told if e.topic == topic and e.payload]

    def running(self) -> "Course":
        self.grant(grant())
        self.happens(PartEvent.STARTED)
        return self


def test_a_command_that_comes_before_its_lease_waits_for_it() -> None:
    course = Course()
    course.command()
    assert course.told == []
    course.grant(grant())

    assert course.node.parts["l1"].life.kept is not None
    course.happens(PartEvent.STARTED)
    assert course.node.parts["l1"].life.state is PartState.WARNED


def test_a_command_that_is_read_again_changes_nothing() -> None:
    course = Course().running()
    course.command()
    before = (len(course.told), len(course.deeds))
    course.now_ms = 5_000
    course.command()

    assert (len(course.told), len(course.deeds)) == before
    assert course.node.parts["l1"].life.leave_ms == 60_000


def test_devices_that_another_part_holds_or_that_are_not_free_are_refused() -> None:
    course = Course().running()
    for lease, devices, held in (
        ("l2", (0, 1), {}),
        ("l3", (4,), {}),
        ("l4", (2,), {2: "process 7 (x)"}),
    ):
        course.grant(grant(lease, devices=devices), held)
        last = course.of("lease.status")[-1]
        assert (last["lease"], last["state"], last["outcome"]) == (lease, "freed", "refused")
        assert last["detail"]
    course.grant(grant("l5", devices=(2,)))
    assert course.of("lease.status")[-1]["state"] == "accepted"


def test_ids_of_what_is_told_are_those_of_its_place_in_the_parts_life() -> None:
    course = Course().running()
    course.tick(60_000)
    ids = [event.event_id for event in course.told]

    assert ids == ["l1/n1/2/0", "l1/n1/2/1", "usage/l1/n1/2/0"]


def test_run_time_counts_as_done_until_the_job_had_saved_and_no_longer() -> None:
    course = Course()
    course.grant(grant(run_ms=600_000))
    course.now_ms = 10_000
    course.happens(PartEvent.STARTED)
    course.now_ms = 70_000
    course.command()
    course.happens(PartEvent.HOOK_ACCEPTED, session="s1")
    course.now_ms = 80_000
    course.happens(PartEvent.SAVED, session="s1")
    course.now_ms = 82_000
    course.happens(PartEvent.SAVED, session="s1")
    course.happens(PartEvent.EXITED, exit_code=0)
    course.now_ms = 85_000
    course.happens(PartEvent.GROUP_GONE)
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)

    (freed,) = [s for s in course.of("lease.status") if s["state"] == "freed"]
    assert (freed["outcome"], freed["remaining_run_ms"]) == ("vacated", 530_000)


def test_what_was_saved_for_a_drain_that_was_called_off_counts_no_more() -> None:
    course = Course()
    course.grant(grant(run_ms=600_000))
    course.happens(PartEvent.STARTED)
    course.command()
    course.now_ms = 50_000
    course.happens(PartEvent.SAVED, session="s1")
    course.command(DrainCommand.CANCEL)
    course.now_ms = 100_000
    course.command(session="s2")
    assert course.node.parts["l1"].saved_ms is None
    course.now_ms = 120_000
    course.happens(PartEvent.SAVED, session="s2")
    assert course.node.parts["l1"].saved_ms == 120_000


def test_a_record_that_changes_what_cannot_change_is_named_and_not_followed() -> None:
    course = Course().running()
    course.grant(grant(devices=(1,)))

    assert "devices" in course.node.faults["l1"]
    assert course.node.parts["l1"].grant.devices == (0,)


def test_use_that_has_to_wait_is_cut_later_and_whole() -> None:
    course = Course().running()
    for at_ms in range(10_000, 400_000, 10_000):
        course.tick(at_ms, defer_usage=True)
    assert course.of("usage") == []
    course.tick(400_000)

    told = course.of("usage")
    assert [u["seq"] for u in told] == list(range(len(told)))
    assert told[-1]["end_ms"] - told[0]["start_ms"] >= 340_000


def test_a_change_of_class_cuts_use_where_it_is_read() -> None:
    course = Course().running()
    course.now_ms = 20_000
    course.grant(grant(work_class=WorkClass.OPPORTUNISTIC))
    course.tick(60_000)
    course.tick(80_000)

    told = [
        (u["start_ms"] - OFFSET_MS, u["end_ms"] - OFFSET_MS, u["work_class"])
        for u in course.of("usage")
    ]
    assert told == [(0, 20_000, "market"), (20_000, 80_000, "opportunistic")]


def test_what_a_lease_holds_after_its_end_is_metered_and_not_billed() -> None:
    course = Course().running()
    course.now_ms = 10_000
    course.happens(PartEvent.GROUP_GONE, exit_code=0)
    course.now_ms = 12_000
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)

    told = [(u["end_ms"] - OFFSET_MS, u["billable"], u["work_class"]) for u in course.of("usage")]
    assert told == [(10_000, True, "market"), (12_000, False, "market")]


def test_a_drain_says_every_ten_seconds_what_it_waits_for() -> None:
    course = Course().running()
    course.command()
    course.node.blockers["l1"] = ("writing shard 3",)
    for at_ms in range(1_000, 60_000, 1_000):
        course.tick(at_ms)

    told = course.of("drain.status")
    assert [t["at_ms"] - OFFSET_MS for t in told] == [0, *range(10_000, 60_000, 10_000)]
    assert told[-1]["blockers"] == ["the job to answer its warning", "writing shard 3"]
    assert told[-1]["warned_ms"] == OFFSET_MS


def test_a_warning_says_when_sigterm_comes() -> None:
    course = Course().running()
    course.now_ms = 5_000
    course.command()
    (warn,) = [deed for _, deed in course.deeds if isinstance(deed, Warn)]

    assert (warn.warned_ms, warn.leave_ms) == (5_000, 65_000)


# What the log says as a whole.


def test_what_the_log_does_not_name_any_more_has_ended() -> None:
    course = Course().running()
    follow_table(course.node, Table(), {}, 0, same_log=True)
    course.take()

    assert ("l1", Effect.TERMINATE) in course.deeds


def test_a_log_that_was_made_anew_ends_nothing() -> None:
    course = Course().running()
    follow_table(course.node, Table(), {}, 0, same_log=False)
    course.take()

    assert course.node.parts["l1"].life.state is PartState.RUNNING
    assert went_back({"leases": 7, "drain.commands": 7}, {"leases": 6, "drain.commands": 7}) == [
        "leases"
    ]
    assert went_back({}, {"leases": 0}) == []


def told_before(state: LeaseState) -> LeaseStatusChanged:
    return LeaseStatusChanged(
        lease="l1",
        node="n1",
        team="t1",
        job="job-l1",
        state=state,
        outcome="finished" if state is LeaseState.FREED else "",  # type: ignore[arg-type] # parsed
        remaining_run_ms=None,
        at_ms=1,
    )


def test_a_lease_that_was_told_of_before_the_journal_was_lost_is_not_started_again() -> None:
    course = Course()
    table = Table({"l1": grant()}, {}, {"l1": told_before(LeaseState.RUNNING)}, {})
    follow_table(course.node, table, {}, 0, same_log=True)
    course.take()

    assert ("l1", Effect.START) not in course.deeds
    assert course.node.parts["l1"].life.state is PartState.VERIFYING
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)
    assert course.of("lease.status")[-1]["outcome"] == "lost"
    assert course.of("usage") == []


def test_what_is_told_after_the_journal_was_lost_has_ids_that_were_not_given_before() -> None:
    before = Course().running()
    before.command()
    last = LeaseStatusChanged.model_validate(before.of("lease.status")[-1])
    after = Course()
    after.now_ms = 5
    follow_table(after.node, Table({"l1": grant()}, {}, {"l1": last}, {}), {}, 5, same_log=True)
    for _ in range(2):
        after.happens(PartEvent.DEVICE_FREE)

    assert after.told
    assert not {e.event_id for e in before.told} & {e.event_id for e in after.told}


def test_a_lease_that_was_freed_before_the_journal_was_lost_stays_so() -> None:
    course = Course()
    table = Table({"l1": grant()}, {}, {"l1": told_before(LeaseState.FREED)}, {})
    follow_table(course.node, table, {}, 0, same_log=True)
    course.take()
    assert course.deeds == []
    assert course.told == []
    follow_change(course.node, Change("leases", "l1", None), {}, 0)
    course.take()

    assert course.node.parts == {}
    assert course.told[-1].payload is None


def test_a_command_that_ended_while_nobody_read_lets_a_held_part_go() -> None:
    course = Course()
    course.grant(grant(parts=2))
    course.happens(PartEvent.STARTED)
    course.command()
    course.command(DrainCommand.CANCEL)
    states = [course.node.parts["l1"].life.state]
    follow_table(course.node, Table({"l1": grant(parts=2)}), {}, 0, same_log=True)
    states.append(course.node.parts["l1"].life.state)

    assert states == [PartState.CANCELLING, PartState.RUNNING]


# What the journal keeps.

moves = st.one_of(
    st.tuples(st.just("grant"), st.sampled_from(["l1", "l2"]), st.integers(0, 3)),
    st.tuples(st.just("end"), st.sampled_from(["l1", "l2"]), st.just(0)),
    st.tuples(st.sampled_from(DrainCommand), st.sampled_from(["l1", "l2"]), st.integers(1, 2)),
    st.tuples(
        st.sampled_from(
            [
                *(PartEvent.STARTED, PartEvent.GROUP_GONE, PartEvent.DEVICE_FREE),
                *(PartEvent.SAVED, PartEvent.EXITED, PartEvent.START_FAILED),
            ]
        ),
        st.sampled_from(["l1", "l2"]),
        st.just(0),
    ),
    st.tuples(st.just("tick"), st.just(""), st.integers(0, 100_000)),
)


@given(steps=st.lists(moves, max_size=40), acknowledge=st.integers(0, 40))
def test_an_agent_that_comes_back_knows_all_that_it_had_decided(
    steps: list[tuple[Any, str, int]], acknowledge: int
) -> None:
    node = Node("n1", 4, RULES, progress_ms=10_000, offset_ms=OFFSET_MS)
    entries = [start_entry("boot", OFFSET_MS)]
    told: list[Outgoing] = []
    now_ms = 0
    for kind, lease, number in steps:
        if kind == "grant":
            node.grant(grant(lease, devices=(number,)), {}, now_ms)
        elif kind == "end":
            node.end_lease(lease, now_ms)
        elif isinstance(kind, DrainCommand):
            node.command(command(kind, f"s{number}", lease=lease), now_ms)
        elif isinstance(kind, PartEvent) and lease in node.parts:
            node.happens(lease, Happened(kind, "s1", exit_code=0), now_ms)
        else:
            now_ms += number
            node.tick(now_ms)
        turn = node.take_turn()
        entry = turn_entry(node, turn, len(told))
        told += turn.events
        if entry is not None:
            entries.append(json.loads(json.dumps(entry)))
    below = min(acknowledge, len(told))
    entries.append(acknowledged_entry(below))

    recovered = recover(entries)
    assert {n: p.dump() for n, p in recovered.parts.items()} == {
        n: p.dump() for n, p in node.parts.items()
    }
    assert recovered.commands == node.commands
    assert list(recovered.events.items()) == [*enumerate(told)][below:]
    assert recovered.next_number == len(told)

    kept = list(recovered.events.items())
    shorter = recover(
        json.loads(json.dumps(entry))
        for entry in whole(node, Start("boot", OFFSET_MS), kept, len(told), {"leases": 3})
    )
    assert shorter.events == recovered.events
    assert shorter.next_number == recovered.next_number
    assert shorter.seen == {"leases": 3}
    assert {n: p.dump() for n, p in shorter.parts.items()} == {
        n: p.dump() for n, p in recovered.parts.items()
    }
