"""A disk that takes no more: the last good checkpoint stays, and the error says what to do."""

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from libs.job.tests.agent_side import clean_environment, run, run_python
from walras_job.checkpoint_format import CHUNK_BYTES, Label, write_checkpoint
from walras_job.disk_faults import read_fault, write_fault
from walras_job.errors import CheckpointFullError, CheckpointWriteError
from walras_launcher.pytest_plugin import missing

# Saves while there is room, then more than there is, then again when there is some.
PROGRAM = """
import io, json, pickle, sys
from pathlib import Path
from walras_job import Checkpoint, CheckpointFullError
{prepare}
directory = Path(sys.argv[1])
checkpoint = Checkpoint(directory)
checkpoint.save(b"good", step=1)
def swallow(stream):
    try:
        stream.write(b"x" * 4_000_000)
    except OSError:
        pass
def translate(stream):
    try:
        stream.write(b"x" * 4_000_000)
    except OSError as error:
        raise RuntimeError("the library's own words") from error
def many(stream):
    for _ in range(4_000):
        stream.write(b"x" * 1_000)
def dump(stream):
    pickle.dump(b"x" * 4_000_000, stream)
for payload in (b"x" * 4_000_000, many, swallow, translate, dump):
    try:
        checkpoint.save(payload, step=2)
    except CheckpointFullError as error:
        latest = checkpoint.latest()
        print(json.dumps([error.code, error.retriable, str(error), latest.step,
                          latest.read().decode(), sorted(p.name for p in directory.iterdir())]))
checkpoint.save(b"smaller", step=3)
print(checkpoint.latest().read().decode())
"""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))"


def expect_good_is_kept(done: "subprocess.CompletedProcess[str]", said: str) -> None:
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert len(refused) == 5
    for line in refused:
        code, retriable, text, step, payload, names = json.loads(line)
        assert (code, retriable) == ("checkpoint_disk_full", True)
        assert said in text
        assert "make room or raise the quota" in text
        assert (step, payload) == (1, "good")
        assert names == ["attempt-0.save-1.step-1.checkpoint"]
    assert last == "smaller"


def test_at_the_limit_of_a_file_the_last_good_one_stays(tmp_path: Path) -> None:
    program = PROGRAM.format(prepare=LIMITED)
    expect_good_is_kept(run_python(program, str(tmp_path)), "File too large")


def test_on_a_full_disk_the_last_good_one_stays(tmp_path: Path) -> None:
    """A file system of one megabyte, in a namespace of its own."""
    space = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    if shutil.which("unshare") is None or not can_mount(space, tmp_path):
        missing("mount", OSError("a user may not mount a small file system here (unshare --user)"))
    program = PROGRAM.format(prepare="")
    command = [*space, "sh", "-c", mount, "sh", str(tmp_path), sys.executable, program]
    expect_good_is_kept(run(command, clean_environment()), "No space left on device")


def can_mount(space: list[str], directory: Path) -> bool:
    command = [*space, "mount", "-t", "tmpfs", "none", str(directory)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_an_interrupt_stays_one_although_the_disk_failed_before_it(tmp_path: Path) -> None:
    def interrupted(stream: BinaryIO) -> None:
        with suppress(OSError):
            stream.write(bytes(CHUNK_BYTES))
        raise KeyboardInterrupt

    path = tmp_path / "a"
    path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(descriptor, path, Label(1, 1, 1), interrupted)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_of_any_kind_has_a_code_of_its_own(number: int) -> None:
    fault = write_fault(Path("a"), OSError(number, os.strerror(number)))
    assert type(fault) is CheckpointFullError
    assert (fault.code, fault.retriable) == ("checkpoint_disk_full", True)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES, errno.ESTALE])
def test_other_faults_are_told_from_a_full_disk(number: int) -> None:
    fault = write_fault(Path("a"), OSError(number, os.strerror(number)))
    assert type(fault) is CheckpointWriteError
    assert os.strerror(number) in str(fault)
    assert os.strerror(number) in str(read_fault(Path("a"), OSError(number, os.strerror(number))))
