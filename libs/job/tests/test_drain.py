"""The drain as the files tell it; no signal is sent here."""

import logging
import math
import time
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, eventually, wall_ms
from walras_job import (
    ControlDirectoryMissingError,
    ControlWriteError,
    Drain,
    drainable,
)
from walras_job.protocol import DrainDone, DrainProgress, DrainWarning


def look(drain: Drain) -> None:
    """Look at the files now, however short ago the last look was."""
    drain._watch.look()


def test_outside_walras_nothing_is_ever_requested_and_nothing_is_written() -> None:
    with drainable() as drain:
        assert not drain.requested
        assert not drain.cancelled
        assert (drain.reason, drain.deadline_ms) == (None, None)
        assert drain.seconds_left() == math.inf
        assert drain.done(step=3) is False
        drain.waiting_for("nothing")
        look(drain)
        assert not drain.requested


def test_an_empty_variable_is_outside_walras_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_CONTROL_DIR", "")
    with drainable() as drain:
        assert not drain.requested


def test_a_control_directory_that_is_not_there_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALRAS_CONTROL_DIR", str(tmp_path / "none"))
    with pytest.raises(ControlDirectoryMissingError, match="none is not there: mount it"):
        drainable().__enter__()


def test_a_warning_is_seen_without_a_signal(as_part: Agent) -> None:
    with drainable() as drain:
        assert not drain.requested
        before = wall_ms()
        as_part.warn(within_s=60, reason="quota lost")
        assert eventually(lambda: drain.requested)
        assert drain.reason == "quota lost"
        assert drain.deadline_ms is not None
        assert before + 60_000 <= drain.deadline_ms <= wall_ms() + 60_000
        assert 0 < drain.seconds_left() <= 60


def test_a_warning_that_came_before_is_seen_at_the_first_question(as_part: Agent) -> None:
    as_part.warn()
    with drainable() as drain:
        assert drain.requested
    with drainable() as drain:
        assert drain.reason == "quota"
    with drainable() as drain:
        assert drain.seconds_left() < math.inf


def test_done_answers_the_session_and_is_not_requested_again(as_part: Agent) -> None:
    as_part.warn("s1")
    with drainable() as drain:
        assert drain.requested
        assert drain.done(step=41, checkpoint=Path("saved/x")) is True
        assert as_part.done() == DrainDone("s1", 41, "saved/x")
        assert not drain.requested
        look(drain)
        assert not drain.requested
        assert drain.reason == "quota"
        assert drain.done() is True
        assert as_part.done() == DrainDone("s1")


def test_another_session_is_requested_after_done(as_part: Agent) -> None:
    with drainable() as drain:
        as_part.warn("s1")
        assert eventually(lambda: drain.requested)
        drain.done()
        as_part.warn("s2")
        assert eventually(lambda: drain.requested)
        drain.done(step=2)
        assert as_part.done() == DrainDone("s2", 2)


def test_done_without_a_warning_says_nothing(as_part: Agent) -> None:
    with drainable() as drain:
        assert drain.done() is False
        assert as_part.done() is None


def test_done_finds_a_warning_that_nobody_asked_for(as_part: Agent) -> None:
    as_part.warn("s1")
    with drainable() as drain:
        assert drain.done() is True
        assert as_part.done() == DrainDone("s1")


def test_done_answers_what_was_shown_and_not_what_came_while_saving(as_part: Agent) -> None:
    with drainable() as drain:
        as_part.warn("s1")
        look(drain)
        assert drain.requested
        as_part.warn("s2")
        drain.done()
        assert as_part.done() == DrainDone("s1")
        assert eventually(lambda: drain.requested)


def test_a_cancelled_drain_is_not_requested_until_another_session_warns(as_part: Agent) -> None:
    with drainable() as drain:
        as_part.warn("s1")
        look(drain)
        as_part.cancel("s1")
        assert eventually(lambda: not drain.requested)
        assert drain.cancelled
        assert (drain.reason, drain.deadline_ms) == (None, None)
        assert drain.seconds_left() == math.inf
        assert drain.done() is False
        as_part.warn("s1", reason="again")
        look(drain)
        assert not drain.requested
        as_part.warn("s2")
        look(drain)
        assert drain.requested
        assert not drain.cancelled
    assert as_part.done() is None


def test_a_cancel_of_an_older_session_changes_nothing(as_part: Agent) -> None:
    as_part.cancel("s1")
    as_part.warn("s2")
    with drainable() as drain:
        assert drain.requested
        assert not drain.cancelled


def test_done_of_an_earlier_process_does_not_answer_for_this_one(as_part: Agent) -> None:
    as_part.warn("s1")
    as_part.control.write_done(DrainDone("s1", 7))
    with drainable() as drain:
        assert drain.requested


def test_a_new_drain_after_the_last_exit_begins_anew(as_part: Agent) -> None:
    as_part.warn("s1")
    with drainable() as drain:
        drain.done()
    with drainable() as again:
        assert again.requested


def test_a_drain_may_be_asked_and_answered_after_its_block(as_part: Agent) -> None:
    with drainable() as drain:
        pass
    as_part.warn()
    assert eventually(lambda: drain.requested)
    assert drain.done()


def test_a_deadline_that_is_over_leaves_no_seconds_and_never_less(as_part: Agent) -> None:
    as_part.warn(within_s=-5)
    with drainable() as drain:
        assert drain.requested
        assert drain.seconds_left() == 0


def test_a_clock_that_was_set_back_makes_no_time(as_part: Agent) -> None:
    """Warned an hour ahead of this clock, the deadline is still a minute away at most."""
    now = wall_ms() + 3_600_000
    as_part.control.write_warning(DrainWarning("s1", "quota", now + 60_000, now))
    with drainable() as drain:
        assert 0 < drain.seconds_left() <= 60


def test_an_extended_deadline_of_the_same_session_counts(as_part: Agent) -> None:
    with drainable() as drain:
        as_part.warn(within_s=10)
        look(drain)
        as_part.warn(within_s=100)
        look(drain)
        assert 10 < drain.seconds_left() <= 100


@pytest.mark.parametrize("body", [b"", b'{"session":', b'{"session": "s1"}', b"\xff" * 100])
def test_a_warning_that_says_nothing_ends_no_loop_and_is_logged_once(
    as_part: Agent, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = as_part.control.path / "warning.json"
    path.write_bytes(body)
    with drainable() as drain, caplog.at_level(logging.WARNING):
        for _ in range(3):
            look(drain)
            assert not drain.requested
        assert [str(path) in record.getMessage() for record in caplog.records] == [True]
        as_part.warn()
        look(drain)
        assert drain.requested
        path.write_bytes(body)
        look(drain)
        assert drain.requested


def test_a_directory_that_vanishes_ends_no_loop_and_takes_no_warning_back(as_part: Agent) -> None:
    as_part.warn()
    with drainable() as drain:
        assert drain.requested
        (as_part.control.path / "warning.json").unlink()
        as_part.control.path.rmdir()
        look(drain)
        assert drain.requested
        with pytest.raises(ControlWriteError, match=r"done.json could not be written"):
            drain.done()
        assert drain.requested


@pytest.mark.parametrize("step", [-1, 2**63, 1.5])
def test_a_step_that_is_none_is_refused(as_part: Agent, step: object) -> None:
    as_part.warn()
    with drainable() as drain:
        with pytest.raises((ValueError, TypeError)):
            drain.done(step=step)  # type: ignore[arg-type] # that is the point
        assert drain.requested
    assert as_part.done() is None


def test_what_is_waited_for_is_told_once_and_again_for_another_session(as_part: Agent) -> None:
    with drainable() as drain:
        drain.waiting_for("too early")
        assert as_part.progress() is None
        as_part.warn("s1")
        look(drain)
        drain.waiting_for("upload of 3 files")
        first = (as_part.control.path / "progress.json").stat()
        assert as_part.progress() == DrainProgress("s1", "upload of 3 files")
        drain.waiting_for("upload of 3 files")
        assert (as_part.control.path / "progress.json").stat().st_ino == first.st_ino
        drain.waiting_for("x" * 70_000)
        assert as_part.progress() == DrainProgress("s1", "x" * 1_000)
        as_part.warn("s2")
        look(drain)
        drain.waiting_for("x" * 70_000)
        assert as_part.progress() == DrainProgress("s2", "x" * 1_000)


def test_progress_that_cannot_be_told_ends_no_loop(
    as_part: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    as_part.warn()
    with drainable() as drain, caplog.at_level(logging.WARNING):
        look(drain)
        (as_part.control.path / "progress.json").mkdir()
        (as_part.control.path / "progress.json" / "in the way").touch()
        drain.waiting_for("upload")
        assert "progress.json could not be written" in caplog.text


def test_questions_between_two_looks_read_no_file(as_part: Agent) -> None:
    with drainable() as drain:
        assert not drain.requested
        drain._watch.next_look_ns = time.monotonic_ns() + 3_600_000_000_000
        as_part.warn()
        assert not any(drain.requested for _ in range(100))
        drain._watch.next_look_ns = time.monotonic_ns()
        assert drain.requested
