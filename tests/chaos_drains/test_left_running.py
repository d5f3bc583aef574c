"""What agents of a run left running is found and ended, and nothing of another run's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos_drains.left_running import end_all, left_running


@contextmanager
def part_in(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start what waits for ever, as an agent starts a part; it is there when it has answered."""
    environment = os.environ | {"WALRAS_CONTROL_DIR": str(folder / "n1" / "state" / "part")}
    waits = [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        waits, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_part_is_found_and_ended(tmp_path: Path) -> None:
    with part_in(tmp_path / "seed-1") as process:
        assert left_running(tmp_path / "seed-1") == [process.pid]
        end_all(tmp_path / "seed-1")
        assert process.wait() == -9
    assert left_running(tmp_path / "seed-1") == []


def test_a_part_of_a_run_whose_folder_begins_with_the_same_letters_is_left_alone(
    tmp_path: Path,
) -> None:
    with part_in(tmp_path / "seed-10") as process:
        assert left_running(tmp_path / "seed-1") == []
        end_all(tmp_path / "seed-1")
        assert process.poll() is None
