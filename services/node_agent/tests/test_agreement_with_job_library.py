"""Agent and job library have no code in common: they agree on every name, file and field."""

import json
from types import ModuleType

import pytest

from walras_job import protocol
from walras_job.protocol import DrainCancel, DrainDone, DrainProgress, DrainWarning
from walras_node_agent.agent import contract
from walras_node_agent.agent.contract import PROGRESS_TEXT_MOST, answers, cancel, warning

LAUNCHER_ONLY = {
    *("SESSION_VARIABLE", "REASON_VARIABLE", "DEADLINE_VARIABLE", "CHILD_VARIABLE"),
}
"""What the library's launcher tells its warning command; no agent has to do with it."""


def names(module: ModuleType) -> dict[str, str]:
    """The variables and files that a side names."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.endswith(("_VARIABLE", "_FILE")) and isinstance(value, str)
    }


def test_both_sides_name_the_same_variables_and_files_alike() -> None:
    of_job = {k: v for k, v in names(protocol).items() if k not in LAUNCHER_ONLY}
    assert names(contract) == of_job
    assert len(set(of_job.values())) == len(of_job) == 14


def test_what_the_launcher_alone_tells_takes_no_name_of_the_agent_s() -> None:
    assert names(protocol).keys() >= LAUNCHER_ONLY
    assert not {names(protocol)[name] for name in LAUNCHER_ONLY} & set(names(contract).values())


def test_a_job_reads_the_warning_and_the_cancel_that_an_agent_writes() -> None:
    written = json.dumps(warning("s1", "quota_lost", 1_000, 61_000)).encode()
    assert DrainWarning.decode(written) == DrainWarning(
        session="s1", reason="quota_lost", warned_ms=1_000, deadline_ms=61_000
    )
    assert DrainCancel.decode(json.dumps(cancel("s1")).encode()) == DrainCancel("s1")


def test_an_agent_reads_what_a_job_says_and_what_it_says_of_another_session_means_nothing() -> None:
    done = json.loads(DrainDone("s1", step=7, checkpoint="c").encode())
    progress = json.loads(DrainProgress("s1", "shard 3 of 8").encode())
    said = answers("s1", done, progress)
    assert (said.saved, said.waits_for) == (True, "shard 3 of 8")
    other = answers("s2", done, progress)
    assert (other.saved, other.waits_for) == (False, "")


@pytest.mark.parametrize("length", [0, PROGRESS_TEXT_MOST, protocol.TEXT_CHARACTERS_MAX])
def test_every_progress_that_a_job_can_tell_names_what_it_waits_for(length: int) -> None:
    told = json.loads(DrainProgress("s1", "x" * length).encode())
    waits_for = answers("s1", None, told).waits_for
    assert 0 < len(waits_for) <= PROGRESS_TEXT_MOST
