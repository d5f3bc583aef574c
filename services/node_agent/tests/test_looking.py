"""What an agent that comes back does for parts that it finds: signals may not have been given."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.node_agent.tests.grants import grant
from services.node_agent.tests.lives import RULES, command
from walras_contracts.work import LeaseOutcome
from walras_node_agent.agent.held_part import HeldPart
from walras_node_agent.agent.launching import Launch
from walras_node_agent.agent.node import Node
from walras_node_agent.host.beat import Beat
from walras_node_agent.host.devices import SimulatedDevices
from walras_node_agent.host.files import write_document
from walras_node_agent.host.keeper import SPEC, TURN
from walras_node_agent.host.looking import Looks
from walras_node_agent.host.machine import boottime_ms
from walras_node_agent.host.processes import Processes, Standing
from walras_node_agent.part_life import Happened, Warn
from walras_node_agent.part_table import Effect, PartEvent, PartState

PATIENCE_MS = 30_000


class Place:
    """A directory with a part whose process runs, and the node that knows it as running."""

    def __init__(self, directory: Path) -> None:
        self.beat = Beat(directory / "beat")
        self.beat.give(boottime_ms())
        self.processes = Processes(directory / "parts", directory / "beat", 60_000, None)
        environment = {
            "PATH": os.environ["PATH"],
            "WALRAS_CONTROL_DIR": str(self.processes.control("l1")),
        }
        launch = Launch(("sleep", "600"), environment, str(directory), str(directory))
        self.processes.start("l1", launch)
        self.node = Node("n1", 4, RULES, progress_ms=10_000, offset_ms=0)
        self.devices = SimulatedDevices(directory / "devices", 4)

    def looks(self) -> Looks:
        return Looks(self.node, self.processes, self.devices, read_ms=1, beat_ms=None)

    def close(self) -> None:
        self.processes.kill("l1")
        deadline = boottime_ms() + PATIENCE_MS
        while self.processes._children:
            assert boottime_ms() < deadline, "the keeper does not end"
            time.sleep(0.01)
            self.processes.reap()
        self.beat.close()


@contextmanager
def place(directory: Path) -> Iterator[Place]:
    made = Place(directory)
    try:
        deadline = boottime_ms() + PATIENCE_MS
        while made.processes.look("l1").standing is not Standing.RUNNING:
            assert boottime_ms() < deadline, "the job does not start"
            time.sleep(0.01)
        yield made
    finally:
        made.close()


def held(node: Node, *events: Happened | str) -> None:
    """Let the node know the part as it was after these events, its deeds undone."""
    node.grant(grant(), {}, 0)
    node.happens("l1", Happened(PartEvent.STARTED), 0)
    for event in events:
        if isinstance(event, Happened):
            node.happens("l1", event, 0)
        else:
            node.command(command(session=event), 0)
    node.take_turn()
    assert isinstance(node.parts["l1"], HeldPart)


def test_a_warning_that_may_not_have_been_given_is_given_again(tmp_path: Path) -> None:
    with place(tmp_path) as made:
        held(made.node, "s1")
        made.looks().recover(0)
        deeds = made.node.take_turn().deeds
    assert [(lease, type(deed)) for lease, deed in deeds] == [("l1", Warn)]


@pytest.mark.parametrize(
    ("event", "effect"),
    [(PartEvent.WARNING_OVER, Effect.TERMINATE), (PartEvent.TERMINATE_OVER, Effect.KILL)],
)
def test_a_signal_that_may_not_have_been_given_is_given_again(
    tmp_path: Path, event: PartEvent, effect: Effect
) -> None:
    events = [Happened(PartEvent.WARNING_OVER)]
    if event is PartEvent.TERMINATE_OVER:
        events.append(Happened(event))
    with place(tmp_path) as made:
        held(made.node, "s1", *events)
        made.looks().recover(0)
        deeds = made.node.take_turn().deeds
    assert deeds == [("l1", effect)]


def test_a_part_that_runs_is_left_alone(tmp_path: Path) -> None:
    with place(tmp_path) as made:
        held(made.node)
        looks = made.looks()
        looks.recover(0)
        looks.look(boottime_ms())
        turn = made.node.take_turn()
        assert (turn.deeds, turn.events) == ([], [])
        assert made.node.parts["l1"].life.state is PartState.RUNNING


@pytest.mark.parametrize("turn", [None, b"", b"agent\n"], ids=["free", "torn", "taken"])
@pytest.mark.parametrize("left", ["nothing", "directory", "spec"])
def test_a_start_that_was_cut_short_is_decided_though_the_agent_that_decided_it_died_too(
    tmp_path: Path, left: str, turn: bytes | None
) -> None:
    """Killed while it made the part's directory; the next one, when it had taken the turn."""
    processes = Processes(tmp_path / "parts", tmp_path / "beat", 60_000, None)
    if left != "nothing":
        processes.control("l1").mkdir(parents=True)
        if turn is not None:
            (processes.of("l1") / TURN).write_bytes(turn)
    if left == "spec":
        write_document(processes.of("l1") / SPEC, {})
    node = Node("n1", 4, RULES, progress_ms=10_000, offset_ms=0)
    node.grant(grant(), {}, 0)
    states = [node.parts["l1"].life.state]
    devices = SimulatedDevices(tmp_path / "devices", 4)
    looks = Looks(node, processes, devices, read_ms=1, beat_ms=None)
    looks.recover(0)
    for now_ms in range(5):
        looks.look(now_ms)
    states.append(node.parts["l1"].life.state)
    assert states == [PartState.STARTING, PartState.FREED]
    # An agent that was killed is no failed start of the job's.
    torn = left == "spec" and turn == b""
    expected = LeaseOutcome.START_FAILED if torn else LeaseOutcome.LOST
    assert node.parts["l1"].life.outcome is expected


def test_two_reads_of_a_device_are_apart(tmp_path: Path) -> None:
    with place(tmp_path) as made:
        held(made.node, Happened(PartEvent.GROUP_GONE, exit_code=0))
        looks = Looks(made.node, made.processes, made.devices, read_ms=500, beat_ms=None)
        states = []
        for now_ms in (1_000, 1_000, 1_499, 1_500):
            looks.look(now_ms)
            states.append(made.node.parts["l1"].life.state)
    verifying = PartState.VERIFYING
    assert states == [verifying, verifying, verifying, PartState.FREED]
