"""The agent where something is missing: room, cgroups, a clock that stays."""

import resource
from pathlib import Path

import pytest

from services.node_agent.tests.agent_rig import Rig, check_usage, rig
from walras_contracts.work import LeaseOutcome
from walras_launcher.pytest_plugin import missing
from walras_node_agent.host.cgroups import Cgroup

HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def limit_files(node: Rig, limit: int) -> None:
    """Let no file of the agent grow beyond a limit from now on: its disk is full."""
    assert node.agent is not None
    hard = resource.prlimit(node.agent.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(node.agent.pid, resource.RLIMIT_FSIZE, (limit, hard))


def test_an_agent_whose_disk_is_full_ends_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    with rig(tmp_path, HEARTBEAT_MS="5000") as node:
        node.grant("deaf")
        pid = node.until_running()
        limit_files(node, (node.state / "journal").stat().st_size)
        node.grant("deaf", lease="l2", devices=(1,))
        node.drain(warning_ms=200)
        node.until_ends(pid)
        assert node.processes("l2") == []
        assert node.statuses() == [("accepted", ""), ("running", "")]
        limit_files(node, resource.RLIM_INFINITY)
        node.until_freed()
        node.until(lambda: node.last_status("l2"), "an answer for the second")

        # It was refused, or accepted and not started, before there was room again.
        assert node.statuses("l2")[0] in {("freed", "refused"), ("accepted", "")}
        check_usage(node.usage())


def test_an_agent_that_comes_back_to_a_full_disk_keeps_what_runs(tmp_path: Path) -> None:
    with rig(tmp_path, HEARTBEAT_MS="5000", ORPHAN_MS="10000") as node:
        node.grant("deaf")
        pid = node.until_running()
        node.kill()
        node.start(file_limit=(node.state / "journal").stat().st_size)
        node.until(lambda: len({h.incarnation for h in node.heartbeats()}) == 2, "the agent back")
        assert pid in node.processes()
        node.drain(warning_ms=100)
        node.until_ends(pid)
        limit_files(node, resource.RLIM_INFINITY)
        node.until_freed()
        check_usage(node.usage())


@pytest.fixture
def cgroup_directory() -> str:
    refusals = []
    for hierarchy in HIERARCHIES:
        try:
            Cgroup(Path(hierarchy))
        except OSError as error:
            refusals.append(f"{hierarchy}: {error}")
            continue
        return hierarchy
    missing("cgroup", OSError("no cgroup (version 2) may be made: " + "; ".join(refusals)))


def test_a_part_in_a_cgroup_is_ended_in_one_stroke(tmp_path: Path, cgroup_directory: str) -> None:
    with rig(tmp_path, CGROUP_DIRECTORY=cgroup_directory) as node:
        node.grant("family", lease="cgrouped")
        node.until(lambda: node.job_says("cgrouped").count("child") == 4, "the family")
        members = Cgroup(Path(cgroup_directory)).members("cgrouped")
        assert sorted(members) == node.processes("cgrouped")
        node.drain("cgrouped", warning_ms=100, terminate_ms=300, verify_ms=10_000)
        freed = node.until_freed("cgrouped")
        assert freed.outcome is LeaseOutcome.VACATED
        node.write("leases", "cgrouped", None)
        path = Path(cgroup_directory, "walras-cgrouped")
        node.until(lambda: not path.exists(), "the cgroup to go")
