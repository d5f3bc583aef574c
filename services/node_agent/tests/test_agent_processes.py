"""The agent with real processes: how jobs of all kinds end, and what is told of it."""

import itertools
import signal
import socket
from pathlib import Path

import pytest

from services.node_agent.tests.agent_rig import check_usage, rig
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand
from walras_contracts.runs import WarningKind

CANCEL = DrainCommand.CANCEL


@pytest.mark.parametrize(("code", "outcome"), [(0, "finished"), (3, "failed")])
def test_a_job_that_ends_by_itself_is_freed_with_its_exit_code(
    tmp_path: Path, code: int, outcome: str
) -> None:
    with rig(tmp_path) as node:
        node.grant("quits", TEST_CODE=str(code), run_ms=60_000)
        pid = node.until_running()
        node.touch("quit")
        freed = node.until_freed()

        assert node.statuses() == [("accepted", ""), ("running", ""), ("freed", outcome)]
        assert (freed.exit_code, freed.remaining_run_ms) == (code, 0 if code == 0 else 60_000)
        node.until_ends(pid)
        check_usage(node.usage())
        assert node.drains() == []


def test_a_job_that_saves_when_it_is_warned_leaves_without_a_signal(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("polite", run_ms=600_000)
        node.until_running()
        node.drain(warning_ms=60_000, terminate_ms=60_000)
        freed = node.until_freed()

        assert (freed.outcome.value, freed.exit_code) == ("vacated", 0)
        assert node.job_says() == ["started", "saved"]
        assert node.drain_states()[-1] == "freed"
        assert "terminating" not in node.drain_states()
        assert node.drains()[-1].outcome == ""
        check_usage(node.usage())
        assert {u.work_class.value for u in node.usage()} == {"market", "overhang"}


def test_the_warning_reaches_the_first_process_by_signal_and_file(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("signalled")
        node.until_running()
        node.drain(warning_ms=60_000, terminate_ms=60_000)
        node.until(lambda: "SIGUSR1" in node.job_says(), "the signal")
        node.until(
            lambda: any("shard 3" in b for d in node.drains() for b in d.blockers),
            "what the job waits for among the blockers",
        )
        assert node.drain_states() == ["warned", "checkpointing"]
        node.touch("save")
        node.until_freed()

        # It said that it had saved and stayed: SIGTERM came soon, not at the end of the warning.
        assert node.drain_states()[2:] == ["waiting", "terminating", "verifying", "freed"]
        last = node.last_status()
        assert last is not None
        assert (last.outcome.value, last.exit_code) == ("vacated", -signal.SIGTERM)


def test_a_job_that_catches_no_signal_is_warned_by_the_file_alone(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("uncaught")
        pid = node.until_running()
        node.drain(warning_ms=2_000)
        node.until((node.control() / "warning.json").exists, "the warning")
        node.until(lambda: len(node.drains()) >= 3, "some turns")
        assert node.processes() == [pid]
        freed = node.until_freed()

        # SIGUSR1 would have ended it at once.
        assert freed.exit_code == -signal.SIGTERM


def test_a_job_that_ends_well_while_it_is_asked_to_leave_is_finished(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("quits")
        node.until_running()
        node.drain(warning_ms=60_000)
        node.until(node.drains, "the warning")
        node.touch("quit")
        freed = node.until_freed()

        assert (freed.outcome.value, freed.exit_code) == ("finished", 0)


def test_a_job_that_ignores_sigterm_is_not_free_before_its_deadline(tmp_path: Path) -> None:
    """R20, scaled down: the devices are free only after the process has gone."""
    with rig(tmp_path) as node:
        node.grant("stubborn", drainability=Drainability.NONE)
        node.until_running()
        node.drain(warning_ms=500, terminate_ms=2_000, verify_ms=5_000)
        freed = node.until_freed()

        ends = {d.state.value: d.at_ms for d in reversed(node.drains())}
        assert freed.at_ms - ends["terminating"] >= 2_000
        assert node.drains()[-1].outcome == "forced"
        assert freed.exit_code == -signal.SIGKILL
        assert not node.processes()
        named = {b for d in node.drains() if d.state.value == "terminating" for b in d.blockers}
        assert any("process" in blocker for blocker in named)


def test_progress_is_told_again_and_again_while_a_drain_goes_on(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf")
        node.until_running()
        node.drain(warning_ms=60_000)
        node.until(lambda: len(node.drains()) >= 4, "progress")

        assert node.drain_states() == ["warned"]
        assert all(d.blockers for d in node.drains())
        told = [d.at_ms for d in node.drains()]
        assert all(b - a >= 300 for a, b in itertools.pairwise(told))


def test_children_and_grandchildren_are_ended_with_their_job(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("family")
        node.until_running()
        node.until(lambda: node.job_says().count("child") == 4, "all of the family")
        node.drain(warning_ms=200, terminate_ms=700, verify_ms=10_000)
        node.until_freed()

        assert node.processes() == []
        assert node.drains()[-1].outcome == "forced"


def test_a_shell_and_what_it_started_end_at_sigterm_together(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("grandchild")
        node.until_running()
        node.until(lambda: len(node.processes()) == 3, "job, shell and sleeper")
        node.drain(warning_ms=200, terminate_ms=60_000, verify_ms=10_000)
        node.until_freed()

        assert node.processes() == []
        assert node.drains()[-1].outcome == ""


@pytest.mark.parametrize("leaves", ["", "1"])
def test_a_process_that_escaped_into_its_own_session_is_found_and_ended(
    tmp_path: Path, leaves: str
) -> None:
    with rig(tmp_path) as node:
        node.grant("escapes", TEST_LEAVES=leaves)
        node.until(lambda: "escaped" in node.job_says(), "the escape")
        if not leaves:
            node.drain(warning_ms=200, terminate_ms=700, verify_ms=10_000)
        freed = node.until_freed()

        assert node.processes() == []
        assert freed.outcome.value == ("finished" if leaves else "vacated")


def test_a_job_whose_disk_is_full_while_it_saves_is_ended_at_its_deadline(tmp_path: Path) -> None:
    """The disk is full by a limit on the size of its files."""
    with rig(tmp_path) as node:
        node.grant("fills")
        node.until_running()
        node.drain(warning_ms=1_000)
        freed = node.until_freed()

        assert any(line.startswith("no room") for line in node.job_says())
        assert freed.outcome.value == "vacated"
        assert "waiting" not in node.drain_states()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("status", "states"),
    [
        (200, ["checkpointing", "waiting", "terminating", "verifying", "freed"]),
        (202, ["checkpointing", "terminating", "verifying", "freed"]),
        (500, ["warned", "terminating", "verifying", "freed"]),
        (0, ["warned", "terminating", "verifying", "freed"]),
    ],
)
def test_a_job_that_is_warned_at_its_address_answers_or_hangs(
    tmp_path: Path, status: int, states: list[str]
) -> None:
    port = free_port()
    with rig(tmp_path) as node:
        node.grant(
            "hooks",
            warning=WarningKind.HTTP,
            url=f"http://127.0.0.1:{port}/drain",
            TEST_STATUS=str(status),
            TEST_PORT=str(port),
        )
        node.until(lambda: "listening" in node.job_says(), "the job's address")
        node.until_running()
        node.drain(warning_ms=1_500)
        node.until_freed()

        assert [s for s in node.drain_states() if s != "warned" or "warned" in states] == states
        assert "asked s1" in node.job_says()


def test_an_address_that_nobody_listens_at_is_named_and_does_not_hold_the_drain_up(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        url = f"http://127.0.0.1:{free_port()}/"
        node.grant("deaf", warning=WarningKind.HTTP, url=url)
        node.until_running()
        node.drain(warning_ms=1_500)
        node.until_freed()

        assert any(url in blocker for d in node.drains() for blocker in d.blockers)


def test_a_job_that_ended_before_its_warning_is_freed_once(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("quits")
        node.until_running()
        node.touch("quit")
        node.until_freed()
        node.drain()
        node.until(node.drains, "an answer")

        assert node.drain_states() == ["freed"]
        assert [s[0] for s in node.statuses()].count("freed") == 1


def test_a_cancelled_drain_leaves_the_job_running(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("signalled")
        pid = node.until_running()
        node.drain(warning_ms=60_000, billing_grace_ms=0)
        node.until(lambda: "SIGUSR1" in node.job_says(), "the warning")
        node.drain(said=CANCEL)
        node.until(lambda: node.drain_states()[-1:] == ["cancelled"], "cancelled")
        assert (node.control() / "cancel.json").exists()
        node.grant("signalled", lease="l2", devices=(1,))
        node.until_running("l2")

        assert pid in node.processes()
        assert node.statuses()[-1] == ("running", "")


def test_memory_that_an_orphan_holds_makes_the_lease_stuck_until_it_is_gone(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        node.grant("polite")
        node.until_running()
        assert node.agent is not None
        # The agent's own process stands for one that nobody can find as the job's.
        held = node.hold(0, node.agent.pid)
        node.drain(verify_ms=700)
        node.until(lambda: node.statuses()[-1:] == [("stuck", "")], "stuck")

        failed = node.drains()[-1]
        assert (failed.state.value, failed.outcome) == ("failed", "device_not_freed")
        assert any(str(node.agent.pid) in blocker for blocker in failed.blockers)
        node.until(lambda: node.heartbeats()[-1].unhealthy_devices == (0,), "an unhealthy device")
        node.grant("quits", lease="l2")
        node.until(lambda: node.last_status("l2"), "an answer for the device that is held")
        assert node.statuses("l2") == [("freed", "refused")]
        held.unlink()
        node.until_freed()
        node.until(lambda: node.heartbeats()[-1].unhealthy_devices == (), "a healthy device")
        check_usage(node.usage())
        assert not node.usage()[-1].billable


def test_a_lease_for_a_device_that_a_stranger_holds_is_refused(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        assert node.agent is not None
        node.hold(2, node.agent.pid)
        node.grant("quits", devices=(1, 2))
        node.until(node.statuses, "an answer")

        last = node.last_status()
        assert last is not None
        assert (last.state.value, last.outcome.value) == ("freed", "refused")
        assert str(node.agent.pid) in last.detail
        assert not (node.state / "parts" / "l1").exists()


@pytest.mark.parametrize("devices", [(0, 4), (0,)])
def test_a_lease_that_does_not_fit_what_is_there_is_refused(
    tmp_path: Path, devices: tuple[int, ...]
) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf", lease="l0")
        node.until_running("l0")
        node.grant("quits", devices=devices)
        node.until(node.statuses, "an answer")

        assert node.statuses() == [("freed", "refused")]


def test_a_part_of_a_gang_starts_when_it_may(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf", parts=2, may_start=False)
        node.until(node.statuses, "accepted")
        node.until(lambda: len(node.heartbeats()) > 2, "some turns")
        assert node.statuses() == [("accepted", "")]
        assert node.processes() == []
        node.grant("deaf", parts=2, may_start=True)
        node.until_running()

        assert node.statuses() == [("accepted", ""), ("running", "")]


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("no-such-behaviour")
        freed = node.until_freed()
        # Python starts, and does not find it.
        assert (freed.outcome.value, freed.exit_code) == ("failed", 1)


def test_a_lease_whose_record_ends_is_ended_and_forgotten(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf")
        pid = node.until_running()
        node.write("leases", "l1", None)
        node.until_freed()
        node.until(lambda: not (node.state / "parts" / "l1").exists(), "its directory to go")

        node.until_ends(pid)
        assert node.statuses()[-1] == ("freed", "vacated")


def test_the_agent_says_how_busy_its_leases_are(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf", devices=(0, 1))
        node.until_running()
        for device, busy in ((0, "100000"), (1, "300000")):
            (node.devices / str(device) / "busy_ppm").write_text(busy, "utf-8")
        node.until(lambda: node.heartbeats()[-1].uses, "use")

        use = node.heartbeats()[-1].uses[0]
        assert use.lease == "l1"
        node.until(lambda: node.heartbeats()[-1].uses[0].busy_ppm == 200_000, "the mean")
