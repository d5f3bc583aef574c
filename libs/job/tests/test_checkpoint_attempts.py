"""A later attempt of the job owns the directory; what is left of an earlier one changes nothing."""

import json
import subprocess
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.job.tests.agent_side import Agent, clean_environment, eventually, python
from walras_job import Checkpoint, StaleAttemptError
from walras_job.attempts import CheckpointName, parse_names

RACER = """
import json, sys
from walras_job import Checkpoint, StaleAttemptError
directory, attempt, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
saves, stopped = 0, False
try:
    checkpoint = Checkpoint(directory, keep=2, attempt=attempt)
    print("open", flush=True)
    sys.stdin.readline()
    while saves < most:
        saves += 1
        checkpoint.save(b"%d/%d" % (attempt, saves), step=saves)
except StaleAttemptError:
    stopped = True
print(json.dumps([saves, stopped]), flush=True)
"""


def test_an_attempt_that_was_replaced_can_save_no_more(tmp_path: Path) -> None:
    orphan = Checkpoint(tmp_path, attempt=1)
    orphan.save(b"orphan", step=1)
    successor = Checkpoint(tmp_path, attempt=2)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StaleAttemptError, match="attempt 1 may not save") as caught:
        orphan.save(b"late", step=2)
    assert "attempt 2 of the job has begun there. End this process" in str(caught.value)
    assert (caught.value.code, caught.value.retriable) == ("stale_attempt", False)
    assert sorted(tmp_path.iterdir()) == before
    latest = successor.latest()
    assert latest is not None
    assert latest.read() == b"orphan"


def test_an_attempt_that_was_replaced_cannot_even_open_the_directory(tmp_path: Path) -> None:
    Checkpoint(tmp_path, attempt=2)
    with pytest.raises(StaleAttemptError):
        Checkpoint(tmp_path, attempt=1)


def test_a_save_claims_as_well_as_an_opening_does(tmp_path: Path) -> None:
    Checkpoint(tmp_path, attempt=5).save(b"", step=1)
    (tmp_path / "attempt-5.claim").unlink()
    with pytest.raises(StaleAttemptError):
        Checkpoint(tmp_path, attempt=4)


def test_an_attempt_may_open_the_directory_again(tmp_path: Path) -> None:
    Checkpoint(tmp_path, attempt=3).save(b"one", step=1)
    again = Checkpoint(tmp_path, attempt=3)
    assert again.save(b"two", step=2).number == 2


def test_replaced_while_it_writes_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """The payload is half written when the next attempt starts and sweeps it."""
    Checkpoint(tmp_path, attempt=1).save(b"good", step=1)
    orphan = Checkpoint(tmp_path, attempt=1)

    def write(stream: BinaryIO) -> None:
        stream.write(b"x" * 2_000_000)
        Checkpoint(tmp_path, attempt=2)
        assert list(tmp_path.glob(".*.tmp")) == []

    with pytest.raises(StaleAttemptError):
        orphan.save(write, step=2)
    assert [saved.read() for saved in Checkpoint(tmp_path, attempt=2).saved()] == [b"good"]


def test_replaced_while_it_writes_it_does_not_put_its_file_into_place(tmp_path: Path) -> None:
    """Also where the next attempt did not sweep it: it had listed the directory before."""
    orphan = Checkpoint(tmp_path, attempt=1)

    def write(stream: BinaryIO) -> None:
        stream.write(b"late")
        (beside,) = tmp_path.glob(".*.tmp")
        kept = beside.with_name("kept")
        kept.hardlink_to(beside)
        Checkpoint(tmp_path, attempt=2)
        kept.rename(beside)

    with pytest.raises(StaleAttemptError):
        orphan.save(write, step=2)
    assert [path.name for path in tmp_path.iterdir()] == ["attempt-2.claim"]


def test_a_save_of_a_replaced_attempt_that_gets_into_place_stays_behind_the_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt claims and saves between the orphan's last look and its rename."""
    orphan = Checkpoint(tmp_path, attempt=1)
    for step in (1, 2, 3):
        orphan.save(b"orphan", step)
    rename = Path.rename

    def overtaken(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        successor = Checkpoint(tmp_path, attempt=2)
        # Swept by the successor; back again, as if it had been listed before it was made.
        path.touch()
        successor.save(b"successor", step=2)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(StaleAttemptError):
        orphan.save(b"late", step=4)
    latest = Checkpoint(tmp_path, attempt=2).latest()
    assert latest is not None
    assert (latest.attempt, latest.read()) == (2, b"successor")


def test_the_order_of_two_claims_at_once_does_not_matter(tmp_path: Path) -> None:
    """Whichever comes last, the higher one owns the directory."""
    Checkpoint(tmp_path, attempt=3)
    (tmp_path / "attempt-2.claim").touch()
    with pytest.raises(StaleAttemptError):
        Checkpoint(tmp_path, attempt=2)
    Checkpoint(tmp_path, attempt=3).save(b"", step=1)
    assert not (tmp_path / "attempt-2.claim").exists()


@given(
    names=st.lists(
        st.builds(CheckpointName, *[st.integers(0, 10**18 - 1)] * 3).map(str)
        | st.integers(0, 10**18 - 1).map("attempt-{}.claim".format)
        | st.text()
    ),
)
def test_the_owner_is_the_highest_attempt_of_all_names(names: list[str]) -> None:
    listing = parse_names(names)
    known = [n for n in names if n.endswith((".claim", ".checkpoint")) and n.startswith("attempt-")]
    attempts = [int(name.split(".")[0].removeprefix("attempt-")) for name in known]
    assert listing.owner == max(attempts, default=0)
    assert list(listing.checkpoints) == sorted(listing.checkpoints, reverse=True)
    assert {str(name) for name in listing.checkpoints} <= set(names)


def test_outside_walras_work_goes_on_as_the_last_attempt_and_claims_nothing(tmp_path: Path) -> None:
    Checkpoint(tmp_path, attempt=4).save(b"four", step=1)
    by_hand = Checkpoint(tmp_path)
    assert by_hand.attempt == 4
    assert by_hand.save(b"by hand", step=2).number == 2
    Checkpoint(tmp_path, attempt=5)
    with pytest.raises(StaleAttemptError, match="to work by hand, leave WALRAS_ATTEMPT unset"):
        by_hand.save(b"", step=3)
    assert [path.name for path in tmp_path.glob("*.claim")] == ["attempt-5.claim"]


def test_the_attempt_of_the_environment_fences(
    as_part: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = as_part.part.checkpoint_directory
    orphan = Checkpoint(directory)
    monkeypatch.setenv("WALRAS_ATTEMPT", "2")
    Checkpoint(directory)
    with pytest.raises(StaleAttemptError):
        orphan.save(b"", step=1)


@pytest.mark.parametrize("repetition", range(3))
def test_two_attempts_that_race_leave_the_later_ones_saves_and_only_whole_ones(
    tmp_path: Path, repetition: int
) -> None:
    stop = threading.Event()
    read: list[tuple[int, int]] = []

    def watch() -> None:
        while not stop.is_set():
            latest = Checkpoint(tmp_path).latest()
            if latest is not None:
                read.append((latest.attempt, latest.number))

    # The orphan saves without end; its successor opens the directory in the midst of it.
    with start(tmp_path, 1, 10**9) as orphan:
        assert orphan.stdin is not None
        orphan.stdin.write("\n")
        orphan.stdin.flush()
        reader = threading.Thread(target=watch)
        reader.start()
        assert eventually(lambda: read)
        with start(tmp_path, 2, 60) as successor:
            said, _ = successor.communicate("\n")
        told, _ = orphan.communicate()
        stop.set()
        reader.join()
    assert said.splitlines() == ["open", "[60, false]"]
    assert told.splitlines()[1:] == [told.splitlines()[1]]
    assert json.loads(told.splitlines()[1])[1] is True
    latest = Checkpoint(tmp_path, attempt=2).latest()
    assert latest is not None
    assert (latest.attempt, latest.step, latest.read()) == (2, 60, b"2/60")
    # Never back to an earlier save, whatever the orphan did meanwhile.
    assert read == sorted(read)
    assert {attempt for attempt, _ in read} >= {1}
    assert list(tmp_path.glob(".*.tmp")) == []


def start(directory: Path, attempt: int, most: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        python(RACER, str(directory), str(attempt), str(most)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
