"""Times since boot mean nothing in another boot; a wall clock that was set is followed once."""

import json
from pathlib import Path

from services.node_agent.tests.grants import grant
from services.node_agent.tests.lives import RULES, command
from walras_contracts.work import UsageMetered
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.recovery import (
    Recovered,
    Start,
    give_back,
    move_into,
    offset_for,
    recover,
    start_entry,
    turn_entry,
)
from walras_node_agent.host.devices import SimulatedDevices
from walras_node_agent.host.looking import Looks
from walras_node_agent.host.processes import Processes
from walras_node_agent.host.pulse import Pulse
from walras_node_agent.part_life import Happened
from walras_node_agent.part_table import PartEvent
from walras_runtime.health import Health

BEFORE, AFTER = Start("boot-1", 1_000_000), Start("boot-2", 5_000_000)


def node(offset_ms: int) -> Node:
    return Node("n1", 4, RULES, progress_ms=10_000, offset_ms=offset_ms)


def left_by_the_boot_before() -> Recovered:
    """A part that has run since 10 s after boot and is being drained since 40 s."""
    kept = node(BEFORE.offset_ms)
    kept.grant(grant(), {}, 10_000)
    kept.happens("l1", Happened(PartEvent.STARTED), 10_000)
    kept.command(command(), 40_000)
    entry = turn_entry(kept, kept.take_turn(), 0)
    assert entry is not None
    entries = [start_entry(BEFORE.boot, BEFORE.offset_ms), entry]
    return recover(json.loads(json.dumps(each)) for each in entries)


def test_what_ran_before_a_reboot_is_lost_and_billed_to_the_last_sign_of_life(
    tmp_path: Path,
) -> None:
    recovered = left_by_the_boot_before()
    moved_ms = move_into(recovered, AFTER.boot, AFTER.offset_ms)
    assert moved_ms == BEFORE.offset_ms - AFTER.offset_ms
    back = node(AFTER.offset_ms)
    give_back(recovered, back)
    processes = Processes(tmp_path / "parts", tmp_path / "beat", 60_000, None)
    devices = SimulatedDevices(tmp_path / "devices", 4)
    # The agent was last alive 45 s after the boot before, in wall clock time 1045 s.
    looks = Looks(back, processes, devices, read_ms=1, beat_ms=45_000 + moved_ms)
    looks.recover(3_000)
    looks.look(3_000)
    looks.look(3_001)
    looks.look(3_002)
    events = back.take_turn().events

    told = [json.loads(e.payload) for e in events if e.topic == UsageMetered.TOPIC and e.payload]
    billed = [u for u in told if u["billable"]]
    assert (billed[0]["start_ms"], billed[-1]["end_ms"]) == (1_040_000, 1_045_000)
    assert told[-1]["end_ms"] == 5_003_001
    statuses = [json.loads(e.payload) for e in events if e.topic == "lease.status" and e.payload]
    assert [(s["state"], s["at_ms"]) for s in statuses] == [("freed", 5_003_001)]
    drains = [json.loads(e.payload) for e in events if e.topic == "drain.status" and e.payload]
    assert {d["warned_ms"] for d in drains} == {1_040_000}


def test_nothing_moves_within_one_boot() -> None:
    recovered = left_by_the_boot_before()
    before = recovered.parts["l1"].dump()
    assert move_into(recovered, BEFORE.boot, AFTER.offset_ms) == 0
    assert recovered.parts["l1"].dump() == before


def test_the_wall_clock_is_followed_when_it_was_set_by_more_than_the_tolerance() -> None:
    start = Start("boot", 1_000_000)
    assert offset_for(None, "boot", 7, 1_000) == 7
    assert offset_for(start, "other", 7, 1_000) == 7
    assert offset_for(start, "boot", 1_001_000, 1_000) == 1_000_000
    assert offset_for(start, "boot", 1_001_001, 1_000) == 1_001_001
    assert offset_for(start, "boot", 998_000, 1_000) == 998_000


def test_a_wall_clock_that_was_set_turns_the_agent_red(tmp_path: Path) -> None:
    devices = SimulatedDevices(tmp_path, 1)
    health = Health()
    set_by_ms = 0
    beats_ms = [10_000]

    def wall() -> int:
        return 1_000_000 + beats_ms[-1] + set_by_ms

    pulse = Pulse(node(1_000_000), devices, every_ms=1, incarnation="i", health=health, wall=wall)

    def beat(now_ms: int) -> bool:
        beats_ms.append(now_ms)
        return pulse.beat(now_ms)

    assert beat(10_000)
    assert health.faults == {}
    set_by_ms = -3_600_000
    assert not beat(10_000)
    assert beat(10_001)
    assert "was set by -3600000 ms" in health.faults["clock"]
    set_by_ms = 0
    assert beat(10_002)
    assert health.faults == {}


def test_only_the_newest_heartbeat_is_taken_and_once(tmp_path: Path) -> None:
    pulse = Pulse(
        node(0), SimulatedDevices(tmp_path, 1), every_ms=10, incarnation="i", health=Health()
    )
    assert [pulse.beat(at_ms) for at_ms in (0, 5, 10)] == [True, False, True]
    taken = pulse.take()
    assert taken is not None
    assert taken.event_id == "i/1"
    assert pulse.take() is None
