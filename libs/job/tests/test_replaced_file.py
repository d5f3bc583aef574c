"""Whether another, whole file stands where a checkpoint stood."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from walras_job.launch.replaced_file import ReplacedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "last.pt"


@pytest.fixture
def was_there(path: Path) -> Iterator[ReplacedFile]:
    path.write_bytes(b"old")
    file = ReplacedFile(path)
    yield file
    file.close()


@pytest.fixture
def was_not_there(path: Path) -> ReplacedFile:
    return ReplacedFile(path)


def put(path: Path, body: bytes) -> None:
    beside = path.with_suffix(".tmp")
    beside.write_bytes(body)
    beside.rename(path)


def test_the_same_file_is_not_another_one_however_it_is_rewritten(
    path: Path, was_there: ReplacedFile
) -> None:
    assert not was_there.replaced()
    path.write_bytes(b"other")
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path)
    assert not was_there.replaced()


def test_a_file_that_was_renamed_over_it_is_another_one(
    path: Path, was_there: ReplacedFile
) -> None:
    put(path, b"new")
    assert was_there.replaced()


def test_a_number_that_the_file_system_gives_again_is_not_taken_for_the_same_file(
    path: Path, was_there: ReplacedFile
) -> None:
    """Replaced many times, the first file's number would come back if it were not held."""
    first = path.stat().st_ino
    for number in range(50):
        put(path, b"%d" % number)
        assert path.stat().st_ino != first
        assert was_there.replaced()


def test_a_file_that_is_removed_and_made_again_is_another_one(
    path: Path, was_there: ReplacedFile
) -> None:
    path.unlink()
    assert not was_there.replaced()
    path.write_bytes(b"new")
    assert was_there.replaced()


def test_a_file_that_somebody_writes_does_not_count_yet(
    path: Path, was_not_there: ReplacedFile
) -> None:
    assert not was_not_there.replaced()
    with path.open("wb") as file:
        file.write(b"half")
        file.flush()
        assert not was_not_there.replaced()
    assert was_not_there.replaced()


def test_a_file_that_somebody_reads_counts(path: Path, was_not_there: ReplacedFile) -> None:
    path.write_bytes(b"whole")
    with path.open("rb"):
        assert was_not_there.replaced()


def test_an_empty_file_is_no_checkpoint(path: Path, was_not_there: ReplacedFile) -> None:
    path.touch()
    assert not was_not_there.replaced()


def test_a_folder_may_be_a_checkpoint(path: Path, was_not_there: ReplacedFile) -> None:
    beside = path.with_suffix(".tmp")
    beside.mkdir()
    (beside / "shard-0").write_bytes(b"x")
    beside.rename(path)
    assert was_not_there.replaced()


def test_a_link_counts_when_it_is_led_to_another_file(path: Path) -> None:
    for name in ("one", "two"):
        path.with_name(name).write_bytes(b"x")
    path.symlink_to("one")
    file = ReplacedFile(path)
    assert not file.replaced()
    beside = path.with_suffix(".tmp")
    beside.symlink_to("two")
    beside.rename(path)
    assert file.replaced()
    file.close()


def test_writers_that_come_and_go_while_it_looks_disturb_nobody(
    path: Path, was_not_there: ReplacedFile
) -> None:
    """The lease that finds writers is given back before it can hold one up."""
    path.write_bytes(b"x")
    child = os.fork()
    if child == 0:
        try:
            for _ in range(2_000):
                with path.open("ab"):
                    pass
        finally:
            os._exit(0)
    looks = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        was_not_there.replaced()
        looks += 1
    assert looks
    assert was_not_there.replaced()
