"""The agent is killed and comes back: nothing that runs is lost, nothing is metered twice."""

import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

from services.node_agent.tests.agent_rig import Rig, check_usage, rig
from walras_contracts.demand import Drainability
from walras_contracts.work import WorkClass
from walras_node_agent.host.machine import started

RESTARTS = 24


def differs(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size != size


def kill_at_random_points(node: Rig, chooser: random.Random, times: int) -> None:
    """Kill the agent at a random time after it began to work, and start it again at once."""
    for _ in range(times):
        journal = node.state / "journal"
        size = journal.stat().st_size if journal.exists() else 0
        node.until(partial(differs, journal, size), "the agent at work")
        time.sleep(chooser.random() * 0.15)
        node.kill()
        node.start()


def test_an_agent_that_is_killed_at_random_points_finds_everything_again(
    tmp_path: Path, global_random_seed: int
) -> None:
    sys.stdout.write(f"seed {global_random_seed}\n")
    chooser = random.Random(global_random_seed)
    with rig(tmp_path) as node:
        node.grant("deaf", lease="stays", devices=(0,))
        first = node.until_running("stays")
        for number in range(RESTARTS // 4):
            # Leases come, are drained and end while the agent dies and comes back.
            lease = f"l{number}"
            node.grant("polite", lease=lease, devices=(1,), work_class=WorkClass.OPPORTUNISTIC)
            kill_at_random_points(node, chooser, 2)
            node.until(partial(node.last_status, lease), f"{lease} told")
            node.drain(lease, session=f"s{number}", warning_ms=60_000)
            kill_at_random_points(node, chooser, 2)
            freed = node.until_freed(lease)
            assert freed.outcome.value in {"vacated", "lost"}, freed
            assert node.processes(lease) == []
            node.write("leases", lease, None)
            check_usage(node.usage(lease))

        assert node.processes("stays") == [first]
        assert ("running", "") in node.statuses("stays")
        node.drain("stays", session="last", warning_ms=100)
        node.until_freed("stays")
        check_usage(node.usage("stays"))
        node.until(lambda: node.leases() == ["stays"], "the directories of the others to go")
        node.write("leases", "stays", None)
        node.until(lambda: node.leases() == [], "its directory to go")
        node.until(lambda: node.keepers() == [], "the last keeper to end")


def test_use_goes_on_without_a_gap_while_the_agent_is_away(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("quits")
        pid = node.until_running()
        node.kill()
        began = time.monotonic()
        while time.monotonic() < began + 1.0:
            time.sleep(0.05)
        node.start()
        node.until(lambda: len({h.incarnation for h in node.heartbeats()}) == 2, "the agent back")
        assert pid in node.processes()
        node.touch("quit")
        node.until_freed()

        usage = node.usage()
        check_usage(usage)
        assert sum(u.end_ms - u.start_ms for u in usage if u.billable) >= 1_000
        assert node.statuses() == [("accepted", ""), ("running", ""), ("freed", "finished")]


def test_use_is_metered_from_the_start_although_the_agent_was_away_then(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.until(node.heartbeats, "the agent")
        node.grant("quits")
        node.until((node.state / "parts" / "l1" / "turn").exists, "the start")
        node.kill()
        node.agent = None
        begun = node.state / "parts" / "l1" / "started.json"
        node.until(begun.exists, "the job")
        since = time.monotonic()
        while time.monotonic() < since + 0.7:
            time.sleep(0.05)
        node.start()
        node.until_running()
        node.touch("quit")
        node.until_freed()

        assert sum(u.end_ms - u.start_ms for u in node.usage() if u.billable) >= 700
        check_usage(node.usage())


def test_a_job_that_ends_while_the_agent_is_away_is_billed_to_its_end(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("quits")
        pid = node.until_running()
        node.kill()
        node.touch("quit")
        node.agent = None
        node.until_ends(pid)
        gone = node.state / "parts" / "l1" / "gone.json"
        node.until(gone.exists, "the keeper's word")
        began = time.monotonic()
        while time.monotonic() < began + 0.7:
            time.sleep(0.05)
        node.start()
        freed = node.until_freed()

        assert (freed.outcome.value, freed.exit_code) == ("finished", 0)
        usage = node.usage()
        check_usage(usage)
        unbilled = [u for u in usage if not u.billable]
        assert unbilled
        assert unbilled[-1].end_ms - unbilled[0].start_ms >= 600


def test_without_an_agent_for_long_all_that_it_started_is_ended(tmp_path: Path) -> None:
    with rig(tmp_path, ORPHAN_MS="2500") as node:
        node.grant("family", lease="l1", devices=(0,))
        node.grant("escapes", lease="l2", devices=(1,))
        node.until(lambda: node.job_says("l1").count("child") == 4, "the family")
        node.until(lambda: "escaped" in node.job_says("l2"), "the escape")
        running = {lease: node.processes(lease) for lease in ("l1", "l2")}
        assert all(running.values())
        node.kill()
        node.agent = None
        for pids in running.values():
            for pid in pids:
                node.until_ends(pid)
        node.until(lambda: node.keepers() == [], "the keepers to end")

        node.start()
        for lease in ("l1", "l2"):
            freed = node.until_freed(lease)
            assert freed.outcome.value == "lost"
            check_usage(node.usage(lease))
            # Billed to the last sign of life of the agent, not to the end.
            assert not node.usage(lease)[-1].billable


def test_a_keeper_lets_its_job_run_while_the_agent_lives(tmp_path: Path) -> None:
    with rig(tmp_path, ORPHAN_MS="2000") as node:
        node.grant("deaf")
        pid = node.until_running()
        first = node.heartbeats()[0].reported_ms
        node.until(lambda: node.heartbeats()[-1].reported_ms > first + 4_000, "4 s")

        assert pid in node.processes()


def test_a_stopped_agent_is_as_good_as_a_dead_one(tmp_path: Path) -> None:
    with rig(tmp_path, ORPHAN_MS="2000") as node:
        node.grant("stubborn")
        pid = node.until_running()
        assert node.agent is not None
        node.agent.send_signal(signal.SIGSTOP)
        node.until_ends(pid)
        node.agent.send_signal(signal.SIGCONT)
        assert node.until_freed().outcome.value == "lost"


def test_an_agent_that_is_stopped_leaves_its_jobs_to_the_next(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf")
        pid = node.until_running()
        assert node.kill(signal.SIGTERM) == 0
        node.start()
        node.drain(warning_ms=100)
        node.until_freed()

        node.until_ends(pid)
        check_usage(node.usage())


def test_a_keeper_that_is_killed_takes_the_job_along_and_what_escaped_is_found(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        node.grant("escapes", drainability=Drainability.NONE)
        node.until(lambda: "escaped" in node.job_says(), "the escape")
        (keeper,) = node.keepers()
        os.kill(keeper, signal.SIGKILL)
        node.until(lambda: node.last_status() and node.processes() == [], "the end of all of it")
        freed = node.until_freed()

        assert freed.outcome.value == "lost"


def test_two_agents_on_one_node_are_one_too_many(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.until(node.heartbeats, "the first agent")
        first = node.agent
        node.start()
        second = node.agent
        assert first is not None
        assert second is not None
        assert second.wait() == 2
        assert f"process {first.pid}" in node.text()
        assert "end it first" in node.text()
        node.agent = first


def test_what_is_told_while_the_log_is_away_arrives_in_order_when_it_is_back(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        node.grant("polite")
        node.until_running()
        (tmp_path / "away").touch()
        node.drain()
        path = node.state / "parts" / "l1" / "gone.json"
        node.until(path.exists, "the end of the job")
        node.kill()
        node.start()
        node.kill()
        node.start()
        assert node.statuses() == [("accepted", ""), ("running", "")]
        (tmp_path / "away").unlink()
        node.until_freed()

        assert node.statuses() == [("accepted", ""), ("running", ""), ("freed", "vacated")]
        assert node.drain_states()[-1] == "freed"
        check_usage(node.usage())


def test_a_lost_directory_ends_what_ran_and_frees_its_devices_only_then(tmp_path: Path) -> None:
    with rig(tmp_path, ORPHAN_MS="2000") as node:
        node.grant("stubborn")
        pid = node.until_running()
        told = node.last_status()
        node.kill()
        # The journal is gone, the parts are not; what the agent told of them is in the log.
        (node.state / "journal").unlink()
        node.write("lease.status", "l1", told)
        node.start()
        freed = node.until_freed()

        assert freed.outcome.value == "lost"
        assert started(pid) is None
        assert [s for s, _ in node.statuses()].count("freed") == 1


def test_a_lease_whose_start_was_cut_short_is_not_started_behind_the_agents_back(
    tmp_path: Path, global_random_seed: int
) -> None:
    sys.stdout.write(f"seed {global_random_seed}\n")
    chooser = random.Random(global_random_seed)
    with rig(tmp_path) as node:
        node.until(node.heartbeats, "the agent")
        for number in range(16):
            lease = f"l{number}"
            node.grant("deaf", lease=lease, devices=(number % 4,))
            time.sleep(chooser.random() * 0.1)
            node.kill()
            node.start()
            node.until(partial(decided, node, lease), f"{lease} to run, or not to")
            if node.statuses(lease)[-1] == ("running", ""):
                node.until(partial(node.processes, lease), f"{lease} to run")
            else:
                assert node.processes(lease) == []
            node.write("leases", lease, None)
            node.until(partial(forgotten, node, lease), f"{lease} forgotten")


def decided(node: Rig, lease: str) -> bool:
    return node.statuses(lease)[-1:] not in ([], [("accepted", "")])


def forgotten(node: Rig, lease: str) -> bool:
    return lease not in node.leases()
