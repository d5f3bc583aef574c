"""Saving and loading when nothing goes wrong."""

import io
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.job.tests.agent_side import Agent
from libs.job.tests.test_durable import calls_of
from walras_job import Checkpoint, CheckpointReadError, CheckpointWriteError, Saved
from walras_job import checkpoint as checkpoint_module
from walras_job.attempts import CheckpointName
from walras_job.saved import find_whole


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_an_empty_directory_has_no_checkpoint_and_is_made(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "a" / "b")
    assert checkpoint.latest() is None
    assert checkpoint.saved() == []
    assert names(tmp_path / "a" / "b") == []


def test_the_latest_is_what_was_saved_last_wherever_it_is_read(tmp_path: Path) -> None:
    Checkpoint(tmp_path).save(b"weights", step=7)
    saved = Checkpoint(str(tmp_path)).latest()
    assert saved is not None
    assert (saved.step, saved.read(), saved.payload_bytes) == (7, b"weights", 7)
    assert (saved.attempt, saved.number) == (0, 1)
    assert saved.path.parent == tmp_path
    assert os.fspath(saved) == str(saved.path)


@given(payloads=st.lists(st.binary(max_size=300), min_size=1, max_size=5), keep=st.integers(1, 3))
def test_the_newest_are_kept_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], keep: int
) -> None:
    directory = tmp_path_factory.mktemp("saved")
    checkpoint = Checkpoint(directory, keep=keep)
    for step, payload in enumerate(payloads):
        given_back = checkpoint.save(payload, step)
        assert given_back == checkpoint.latest()
        expected = list(enumerate(payloads[: step + 1]))[-keep:]
        assert [(s.step, s.read()) for s in reversed(checkpoint.saved())] == expected
        assert len(names(directory)) == len(expected)


def test_a_later_save_counts_though_its_step_is_lower(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(b"far", step=900)
    checkpoint.save(b"back", step=10)
    assert [saved.step for saved in checkpoint.saved()] == [10, 900]


def test_ten_and_more_saves_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, keep=20)
    for step in range(12):
        checkpoint.save(b"%d" % step, step)
    assert [saved.step for saved in checkpoint.saved()] == list(reversed(range(12)))


def write_zip(stream: BinaryIO) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("weights", b"w" * 3_000_000)


def write_pieces(stream: BinaryIO) -> None:
    for number in range(100):
        stream.write(b"%d" % number)
        stream.flush()
    stream.write(b"x" * 2_500_000)
    stream.write(memoryview(b"abcdef")[::2].tobytes())
    stream.write(bytearray(b"end"))
    stream.close()


@pytest.mark.parametrize("write", [write_zip, write_pieces])
def test_a_function_writes_to_a_stream_as_libraries_do(
    tmp_path: Path, write: Callable[[BinaryIO], None]
) -> None:
    expected = io.BytesIO()
    kept = expected.close
    expected.close = lambda: None  # type: ignore[method-assign] # read after write_pieces closes it
    write(expected)
    saved = Checkpoint(tmp_path).save(write, step=1)
    assert saved.payload_bytes == len(saved.read())
    if write is write_zip:
        with saved.open() as stream, zipfile.ZipFile(stream) as archive:
            assert archive.read("weights") == b"w" * 3_000_000
    else:
        assert saved.read() == expected.getvalue()
    kept()


def test_a_stream_of_a_checkpoint_reads_and_seeks_like_a_file(tmp_path: Path) -> None:
    payload = pickle.dumps({"weights": list(range(1_000))})
    saved = Checkpoint(tmp_path).save(payload, step=1)
    with saved.open() as stream, io.BytesIO(payload) as expected:
        for offset, whence in ((0, 0), (10, 0), (5, 1), (-7, 2), (3, 2), (-1, 1)):
            assert stream.seek(offset, whence) == expected.seek(offset, whence)
            assert stream.tell() == expected.tell()
            assert stream.read(20) == expected.read(20)
        stream.seek(0)
        assert pickle.load(stream) == {"weights": list(range(1_000))}
        with pytest.raises(ValueError, match="before the payload"):
            stream.seek(-len(payload) - 100, io.SEEK_END)
        with pytest.raises(OSError, match="fileno"):
            stream.fileno()


def test_what_a_function_raises_is_passed_on_and_nothing_has_changed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(b"good", step=1)
    before = names(tmp_path)

    def fail(stream: BinaryIO) -> None:
        stream.write(b"x" * 2_000_000)
        raise FileNotFoundError("the function's own")

    with pytest.raises(FileNotFoundError, match="the function's own"):
        checkpoint.save(fail, step=2)
    assert names(tmp_path) == before
    assert [saved.step for saved in checkpoint.saved()] == [1]


@pytest.mark.parametrize("payload", ["text", None, 3])
def test_what_is_no_payload_is_refused(tmp_path: Path, payload: object) -> None:
    with pytest.raises(TypeError):
        Checkpoint(tmp_path).save(payload, step=1)  # type: ignore[arg-type] # that is the point
    assert names(tmp_path) == []


@pytest.mark.parametrize("step", [-1, 2**63, 1.0, "7"])
def test_a_step_that_is_none_is_refused_before_anything_is_written(
    tmp_path: Path, step: object
) -> None:
    with pytest.raises((ValueError, TypeError)):
        Checkpoint(tmp_path).save(b"", step=step)  # type: ignore[arg-type] # that is the point
    assert names(tmp_path) == []


def test_at_least_one_is_kept_and_an_attempt_is_a_whole_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoint(tmp_path, keep=0)
    with pytest.raises(ValueError, match="attempt is -1"):
        Checkpoint(tmp_path, attempt=-1)


def test_the_new_one_is_durable_before_an_old_one_goes(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, keep=1)
    checkpoint.save(b"old", step=1)
    calls = calls_of(lambda: checkpoint.save(b"new", step=2))
    order = [name for name in calls if name in {"write", "fsync", "rename", "unlink"}]
    # The first unlink is of the temporary name, which the rename has taken away already.
    assert order[-5:] == ["fsync", "rename", "fsync", "unlink", "unlink"]
    assert set(order[:-5]) == {"write"}


def test_files_of_others_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    others = ["notes.txt", "attempt-1.save-x.step-1.checkpoint", ".hidden.tmp", "step-3.checkpoint"]
    others += ["attempt-01.save-1.step-1.checkpoint", "attempt-1.claim.txt"]
    for name in others:
        (tmp_path / name).write_text("mine", "utf-8")
    checkpoint = Checkpoint(tmp_path, keep=1)
    for step in range(3):
        checkpoint.save(b"", step)
    assert set(others) < set(names(tmp_path))
    assert len(names(tmp_path)) == len(others) + 1


def test_threads_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, keep=100)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda step: checkpoint.save(b"%d" % step, step), range(40)))
    assert sorted((s.step, s.read()) for s in checkpoint.saved()) == [
        (step, b"%d" % step) for step in range(40)
    ]
    assert sorted(s.number for s in checkpoint.saved()) == list(range(1, 41))


def test_a_reader_whose_listing_was_overtaken_lists_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had listed was pruned before it could read it: there are newer ones then."""
    writer = Checkpoint(tmp_path, keep=1)
    writer.save(b"listed", step=1)

    def overtaken(directory: Path, name: CheckpointName) -> Saved | None:
        monkeypatch.setattr(checkpoint_module, "find_whole", find_whole)
        writer.save(b"newer", step=2)
        return find_whole(directory, name)

    monkeypatch.setattr(checkpoint_module, "find_whole", overtaken)
    latest = writer.latest()
    assert latest is not None
    assert latest.read() == b"newer"


def test_a_forked_child_may_save_while_a_thread_of_its_parent_does(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    with checkpoint._lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if checkpoint.save(b"child", step=3).step == 3 else 1
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    latest = checkpoint.latest()
    assert latest is not None
    assert latest.read() == b"child"


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointWriteError, match=r"file/below: Not a directory") as caught:
        Checkpoint(tmp_path / "file" / "below")
    assert (caught.value.code, caught.value.retriable) == ("checkpoint_write_failed", True)


def test_a_directory_that_is_gone_is_said_and_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "a")
    checkpoint.save(b"", step=1)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(CheckpointReadError, match="cannot be read") as caught:
        checkpoint.latest()
    assert (caught.value.code, caught.value.retriable) == ("checkpoint_unreadable", True)
    with pytest.raises(CheckpointReadError):
        checkpoint.save(b"", step=2)


def test_a_checkpoint_that_is_gone_when_it_is_read_is_said(tmp_path: Path) -> None:
    saved = Checkpoint(tmp_path).save(b"", step=1)
    saved.path.unlink()
    with pytest.raises(CheckpointReadError, match="cannot be read"):
        saved.read()


def test_the_attempt_of_the_environment_is_taken(as_part: Agent) -> None:
    directory = as_part.part.checkpoint_directory
    saved = Checkpoint(directory).save(b"", step=1)
    assert saved.attempt == as_part.part.attempt == 1
    assert names(directory) == ["attempt-1.claim", saved.path.name]


def test_a_payload_of_many_megabytes_comes_back_whole(tmp_path: Path) -> None:
    payload = os.urandom(1 << 20) * 9 + b"tail"
    saved = Checkpoint(tmp_path).save(payload, step=sys.maxsize)
    assert saved.read() == payload
    with saved.open() as stream:
        stream.seek(5 << 20)
        assert stream.read(1 << 20) == payload[5 << 20 : 6 << 20]
