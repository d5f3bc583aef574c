"""Files that are there wholly or not at all."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from libs.job.tests.agent_side import clean_environment, python
from walras_job.control import ControlDirectory
from walras_job.durable import make_directory, read_small_file, replace_file
from walras_job.errors import ControlWriteError, DocumentUnreadableError
from walras_job.protocol import DrainCancel


def calls_of(action: Callable[[], object]) -> list[str]:
    """Return the functions of the system that an action calls, in order."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        del frame
        if event == "c_call" and argument.__module__ == "posix":
            seen.append(argument.__name__)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen


def test_a_file_is_on_disk_before_it_takes_the_place_and_the_name_is_forced_after(
    tmp_path: Path,
) -> None:
    calls = calls_of(lambda: replace_file(tmp_path / "a", b"new"))
    steps = [name for name in calls if name in {"write", "fsync", "replace", "rename"}]
    assert steps == ["write", "fsync", "replace", "fsync"]
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_reader_sees_the_old_document_or_the_new_one_while_a_writer_is_killed(
    tmp_path: Path,
) -> None:
    program = """
import sys
from pathlib import Path
from walras_job.control import ControlDirectory
from walras_job.protocol import DrainCancel
control, number = ControlDirectory(Path(sys.argv[1])), 0
while True:
    number += 1
    control.write_cancel(DrainCancel(f"{number}-{'x' * 200}"))
"""
    control = ControlDirectory(tmp_path)
    for _ in range(3):
        writer = subprocess.Popen(python(program, str(tmp_path)), env=clean_environment())
        seen: set[str] = set()
        while len(seen) < 5:
            found = control.read_cancel()
            if found is not None:
                seen.add(found.session)
        writer.kill()
        writer.wait()
        assert control.read_cancel() is not None


def test_a_link_is_not_followed_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"{}")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=name):
            read_small_file(tmp_path / name, 100)
    assert read_small_file(tmp_path / "none", 100) is None


def test_of_a_large_file_no_more_is_read_than_shows_that_it_is_large(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1_000)
    assert read_small_file(tmp_path / "large", 100) == b"x" * 101


def test_directories_are_made_with_all_above_them(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_faults_of_the_control_directory_name_the_file(tmp_path: Path) -> None:
    control = ControlDirectory(tmp_path / "gone")
    with pytest.raises(ControlWriteError, match=r"gone/cancel.json could not be written") as caught:
        control.write_cancel(DrainCancel("s1"))
    assert (caught.value.code, caught.value.retriable) == ("control_write_failed", True)
    (tmp_path / "cancel.json").write_bytes(b"{")
    with pytest.raises(DocumentUnreadableError, match=r"cancel.json: no JSON"):
        ControlDirectory(tmp_path).read_cancel()
