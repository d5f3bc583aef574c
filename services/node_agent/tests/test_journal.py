"""The journal: torn tails, damage, a full disk."""

import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from walras_node_agent.host.journal import (
    BALLAST,
    JOURNAL,
    Entry,
    Journal,
    JournalDamagedError,
    JournalFullError,
    encode,
)

ENTRIES: list[Entry] = [{"first": 0, "events": [["id", "é", None]]}, {"seen": {"leases": 3}}]


def written(directory: Path, entries: list[Entry]) -> bytes:
    with closing(Journal(directory)) as journal:
        journal.append(entries)
    return (directory / JOURNAL).read_bytes()


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    written(tmp_path, ENTRIES[:1])
    written(tmp_path, ENTRIES[1:])
    with closing(Journal(tmp_path)) as journal:
        assert journal.read() == ENTRIES


def test_a_tail_that_was_torn_at_any_byte_is_cut_off_and_written_on(tmp_path: Path) -> None:
    whole = written(tmp_path, ENTRIES)
    first = len(encode(ENTRIES[0]))
    for length in range(len(whole)):
        (tmp_path / JOURNAL).write_bytes(whole[:length])
        with closing(Journal(tmp_path)) as journal:
            kept = ENTRIES[:1] if length >= first else []
            assert journal.read() == kept, length
            journal.append([{"n": 1}])
        with closing(Journal(tmp_path)) as journal:
            assert journal.read() == [*kept, {"n": 1}]


def test_damage_before_the_tail_is_not_passed_over(tmp_path: Path) -> None:
    whole = bytearray(written(tmp_path, ENTRIES))
    whole[20] ^= 1
    (tmp_path / JOURNAL).write_bytes(whole)
    with closing(Journal(tmp_path)) as journal, pytest.raises(JournalDamagedError, match="1 of 2"):
        journal.read()


@contextmanager
def no_file_grows_beyond(limit: int) -> Iterator[None]:
    """Stand for a full disk: the kernel refuses to let a file grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_entry_that_finds_no_room_leaves_nothing_and_can_be_written_later(
    tmp_path: Path,
) -> None:
    with closing(Journal(tmp_path)) as journal:
        journal.append(ENTRIES[:1])
        with no_file_grows_beyond(journal.size + 10), pytest.raises(JournalFullError) as refused:
            journal.append(ENTRIES[1:])
        assert refused.value.retriable
        assert journal.full
        assert not (tmp_path / BALLAST).exists()
        journal.append(ENTRIES[1:])
        assert not journal.full
        assert journal.read() == ENTRIES


def test_what_was_kept_for_a_full_disk_is_there_from_the_beginning(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        assert (tmp_path / BALLAST).stat().st_blocks * 512 >= 1 << 20
        assert not journal.full


def test_a_shorter_journal_takes_the_place_of_a_long_one_at_once(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        journal.append(ENTRIES)
        journal.replace([{"n": 1}])
        journal.append([{"n": 2}])
    with closing(Journal(tmp_path)) as journal:
        assert journal.read() == [{"n": 1}, {"n": 2}]


def test_a_journal_that_cannot_be_shortened_stays(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        journal.append(ENTRIES)
        with no_file_grows_beyond(5):
            journal.replace([{"n": 1}])
        assert journal.read() == ENTRIES
        assert [path.name for path in tmp_path.iterdir()] != []
        assert not (tmp_path / f"{JOURNAL}.new").exists()
