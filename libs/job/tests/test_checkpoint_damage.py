"""A checkpoint that is not as it was written is never loaded; the one before it is."""

import errno
import logging
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_job import Checkpoint, CheckpointReadError, Saved
from walras_job.checkpoint_format import END, TRAILER_BYTES

OLD, NEW = b"the old weights", b"the new ones"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Checkpoint, Saved]:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(OLD, step=1)
    return checkpoint, checkpoint.save(NEW, step=2)


def loaded(checkpoint: Checkpoint) -> bytes | None:
    latest = checkpoint.latest()
    return None if latest is None else latest.read()


def test_cut_at_every_byte_the_old_one_is_loaded(two: tuple[Checkpoint, Saved]) -> None:
    checkpoint, new = two
    body = new.path.read_bytes()
    assert loaded(checkpoint) == NEW
    for length in range(len(body)):
        new.path.write_bytes(body[:length])
        assert loaded(checkpoint) == OLD, length
    new.path.write_bytes(body)
    assert loaded(checkpoint) == NEW


def test_with_every_bit_of_every_byte_turned_the_old_one_is_loaded(
    two: tuple[Checkpoint, Saved],
) -> None:
    checkpoint, new = two
    body = new.path.read_bytes()
    for position in range(len(body)):
        for bit in range(8):
            turned = bytearray(body)
            turned[position] ^= 1 << bit
            new.path.write_bytes(turned)
            assert loaded(checkpoint) == OLD, (position, bit)


def test_with_zeros_from_every_byte_on_the_old_one_is_loaded(two: tuple[Checkpoint, Saved]) -> None:
    """What a file system leaves that had the length on disk but not the data."""
    checkpoint, new = two
    body = new.path.read_bytes()
    for position in range(len(body)):
        new.path.write_bytes(body[:position] + bytes(len(body) - position))
        assert loaded(checkpoint) == OLD, position


@given(data=st.data())
def test_other_bytes_are_never_loaded(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("saved")
    checkpoint = Checkpoint(directory)
    checkpoint.save(OLD, step=1)
    new = checkpoint.save(NEW, step=2)
    body = new.path.read_bytes()
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    other = body[:start] + data.draw(st.binary(max_size=60)) + body[end:]
    new.path.write_bytes(other)
    assert loaded(checkpoint) == (NEW if other == body else OLD)


def test_what_follows_the_end_makes_it_another_file(two: tuple[Checkpoint, Saved]) -> None:
    checkpoint, new = two
    body = new.path.read_bytes()
    new.path.write_bytes(body + b"\0")
    assert loaded(checkpoint) == OLD
    new.path.write_bytes(body + body)
    assert loaded(checkpoint) == OLD


def test_a_whole_checkpoint_under_another_name_is_not_loaded(
    two: tuple[Checkpoint, Saved],
) -> None:
    """Copied or renamed it would count as later than what was saved after it."""
    checkpoint, new = two
    (old,) = (saved for saved in checkpoint.saved() if saved.step == 1)
    false_name = new.path.with_name("attempt-0.save-9.step-1.checkpoint")
    false_name.write_bytes(old.path.read_bytes())
    assert loaded(checkpoint) == NEW


def test_a_trailer_that_is_right_in_itself_but_of_another_size_is_not_believed(
    two: tuple[Checkpoint, Saved],
) -> None:
    checkpoint, new = two
    body = new.path.read_bytes()[:-TRAILER_BYTES]
    fields = struct.pack(">QQQQ", new.step, new.attempt, new.number, len(NEW) + 1)
    body += fields + struct.pack(">I", zlib.crc32(body + fields)) + END
    new.path.write_bytes(body)
    assert loaded(checkpoint) == OLD


def test_damage_in_a_large_payload_is_found(tmp_path: Path, global_random_seed: int) -> None:
    draw = random.Random(global_random_seed)
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(OLD, step=1)
    new = checkpoint.save(draw.randbytes(3 << 20), step=2)
    body = bytearray(new.path.read_bytes())
    for _ in range(20):
        position = draw.randrange(len(body))
        body[position] ^= 0x10
        new.path.write_bytes(body)
        assert loaded(checkpoint) == OLD, position
        body[position] ^= 0x10


def test_when_all_are_damaged_there_is_none_and_each_is_named(
    two: tuple[Checkpoint, Saved], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint, _ = two
    for saved in checkpoint.saved():
        saved.path.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert checkpoint.latest() is None
    assert caplog.text.count("is damaged; passed over") == 2


def test_after_damage_work_goes_on_and_new_saves_are_later(two: tuple[Checkpoint, Saved]) -> None:
    checkpoint, new = two
    new.path.write_bytes(b"")
    again = Checkpoint(checkpoint.directory)
    assert loaded(again) == OLD
    assert again.save(b"newer", step=2).number == new.number + 1
    assert loaded(again) == b"newer"


def test_a_checkpoint_that_cannot_be_read_is_not_passed_over(two: tuple[Checkpoint, Saved]) -> None:
    """What it holds is not known: going back a step in silence could cost hours."""
    checkpoint, new = two
    new.path.unlink()
    new.path.mkdir()
    with pytest.raises(CheckpointReadError, match="Is a directory") as caught:
        checkpoint.latest()
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EISDIR


def test_a_name_that_leads_nowhere_is_passed_over(two: tuple[Checkpoint, Saved]) -> None:
    checkpoint, new = two
    new.path.unlink()
    new.path.symlink_to(checkpoint.directory / "nowhere")
    assert loaded(checkpoint) == OLD
    assert new.path.is_symlink()
