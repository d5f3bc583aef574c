"""A lease is started only where it is sure that it stands: its node was not given up meanwhile."""

import random

import pytest

from services.node_agent.tests.grants import grant
from services.node_agent.tests.lives import RULES, command
from walras_contracts.work import WorkClass
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.standing import NodeStanding
from walras_node_agent.part_table import Effect, PartState

WITHIN_MS = 60_000


def standing(now_ms: int = 0, barrier: int = 7) -> NodeStanding:
    """One that was heard, has read a table up to a barrier since, and the leases one further."""
    found = NodeStanding(WITHIN_MS)
    found.heard(now_ms, now_ms)
    found.read_table(found.began_to_read(), barrier)
    found.read_leases(barrier + 2)
    return found


def test_nothing_stands_at_first() -> None:
    found = NodeStanding(WITHIN_MS)
    assert not found.stands(0)
    assert not found.wants_table
    found.read_table(found.began_to_read(), 7)
    found.read_leases(100)
    assert not found.stands(0), "it read all there is, and nobody has heard of it"


def test_a_table_that_was_begun_before_it_was_heard_says_nothing() -> None:
    found = NodeStanding(WITHIN_MS)
    began = found.began_to_read()
    found.heard(0, 0)
    assert found.wants_table
    found.read_table(began, 7)
    found.read_leases(100)
    assert found.wants_table
    assert not found.stands(0)


def test_it_stands_once_the_leases_show_a_barrier_behind_what_was_heard() -> None:
    found = NodeStanding(WITHIN_MS)
    found.heard(0, 0)
    found.read_table(found.began_to_read(), 7)
    assert not found.wants_table
    # Barrier 8 may lie before what was heard, and was not visible: it is in step 9 at the latest,
    # and what was given up by then lies before barrier 9.
    found.read_leases(8)
    assert not found.stands(0)
    found.read_leases(9)
    assert found.stands(0)


def test_in_a_log_without_a_barrier_nobody_was_silent_for_long() -> None:
    found = NodeStanding(WITHIN_MS)
    found.heard(0, 0)
    assert not found.stands(0)
    found.read_table(found.began_to_read(), -1)
    assert found.stands(0)


def test_it_stands_as_long_as_it_is_heard_often_enough() -> None:
    found = standing()
    for now_ms in range(0, 10 * WITHIN_MS, WITHIN_MS):
        found.heard(now_ms, now_ms)
        assert found.stands(now_ms + WITHIN_MS)
        assert not found.wants_table


def test_who_was_not_heard_for_long_has_to_read_all_again() -> None:
    found = standing()
    assert not found.stands(WITHIN_MS + 1)
    found.read_leases(1_000)
    found.heard(WITHIN_MS + 2, WITHIN_MS + 2)
    assert not found.stands(WITHIN_MS + 2)
    assert found.wants_table
    found.read_table(found.began_to_read(), 1_000)
    found.read_leases(1_002)
    assert found.stands(WITHIN_MS + 2)


def test_a_gap_counts_although_nobody_looked_while_it_lasted() -> None:
    found = standing()
    found.heard(WITHIN_MS + 1, WITHIN_MS + 1)
    assert not found.stands(WITHIN_MS + 1)
    assert found.wants_table


def test_a_report_that_the_log_took_late_counts_from_when_it_was_made() -> None:
    found = standing()
    found.heard(WITHIN_MS - 5, WITHIN_MS)
    assert found.stands(2 * WITHIN_MS - 5)
    assert not found.stands(2 * WITHIN_MS - 4)
    late = standing()
    late.heard(1, WITHIN_MS + 1)
    assert not late.stands(WITHIN_MS + 1)


def test_another_lapse_while_the_table_is_read_wants_another_table() -> None:
    found = NodeStanding(WITHIN_MS)
    found.heard(0, 0)
    began = found.began_to_read()
    found.heard(2 * WITHIN_MS, 2 * WITHIN_MS)
    found.read_table(began, 7)
    found.read_leases(1_000)
    assert not found.stands(2 * WITHIN_MS)
    assert found.wants_table


def a_node(*, stands: bool) -> Node:
    node = Node("n1", 4, RULES, progress_ms=10_000, offset_ms=0)
    node.stands = stands
    return node


def begun(node: Node) -> list[str]:
    return [lease for lease, deed in node.take_turn().deeds if deed is Effect.START]


def state(node: Node, lease: str = "l1") -> PartState:
    return node.parts[lease].life.state


def test_a_node_that_does_not_stand_accepts_and_starts_nothing() -> None:
    node = a_node(stands=False)
    node.grant(grant(), {}, 0)
    assert begun(node) == []
    assert state(node) is PartState.ACCEPTED
    node.grant(grant(work_class=WorkClass.OPPORTUNISTIC), {}, 0)
    assert begun(node) == [], "written again"


def test_what_waited_is_started_once_the_node_stands() -> None:
    node = a_node(stands=False)
    node.grant(grant(), {}, 0)
    node.grant(grant("l2", devices=(1,), may_start=False), {}, 0)
    node.note_standing(now_ms=5, stands=True)
    assert begun(node) == ["l1"]
    assert state(node, "l2") is PartState.ACCEPTED
    node.note_standing(now_ms=6, stands=True)
    assert begun(node) == []


def test_what_was_given_up_meanwhile_is_not_started() -> None:
    node = a_node(stands=False)
    node.grant(grant(), {}, 0)
    node.grant(grant(may_start=False), {}, 1)
    node.note_standing(now_ms=5, stands=True)
    assert begun(node) == []


def test_what_was_told_to_leave_meanwhile_is_not_started() -> None:
    node = a_node(stands=False)
    node.command(command(), 0)
    node.grant(grant(), {}, 0)
    node.note_standing(now_ms=5, stands=True)
    assert begun(node) == []
    assert state(node) is PartState.VERIFYING


class Log:
    """Steps, reports and an agent that reads, in any order.

    `step` is the one that is open; the barrier before it may not be `visible` yet.
    """

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.standing = NodeStanding(WITHIN_MS)
        self.now_ms = self.step = 0
        self.visible = -1
        self.read = -1
        self.reading: tuple[int, int] | None = None
        self.heard_ms: int | None = None
        self.back_in = 0
        """The step of the first report behind the last silence."""

    def report(self) -> None:
        if self.heard_ms is None or self.now_ms - self.heard_ms > WITHIN_MS:
            self.back_in = self.step
        self.heard_ms = self.now_ms
        self.standing.heard(self.now_ms, self.now_ms)

    def read_table(self) -> None:
        if self.reading is None:
            self.reading = self.standing.began_to_read(), self.visible
            return
        self.standing.read_table(*self.reading)
        self.read, self.reading = self.reading[1], None
        self.standing.read_leases(self.read)

    def read_on(self) -> None:
        if self.reading is not None:
            return
        self.read = self.chooser.randint(self.read, self.visible)
        self.standing.read_leases(self.read)

    def pass_time(self) -> None:
        self.now_ms += self.chooser.choice((1_000, 10_000, 20_000, WITHIN_MS + 1))

    def end_step(self) -> None:
        if self.visible < self.step - 1:
            self.visible += 1
        else:
            self.step += 1


@pytest.mark.parametrize("seed", range(40))
def test_whoever_stands_has_read_what_was_given_up_before_it_was_heard(seed: int) -> None:
    log = Log(seed)
    stood = 0
    deeds = (log.report, log.report, log.read_table, log.read_on, log.pass_time, log.end_step)
    for _ in range(600):
        log.chooser.choice(deeds)()
        if log.standing.stands(log.now_ms):
            stood += 1
            assert log.heard_ms is not None
            assert log.now_ms - log.heard_ms <= WITHIN_MS
            # Before barrier 2 nobody can have been silent for the time between two of them.
            assert log.read >= log.back_in or log.back_in < 2
    assert stood > 0
