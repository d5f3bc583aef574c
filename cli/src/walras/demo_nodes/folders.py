"""Where the demo of nodes keeps what it writes: one folder of its own, emptied at the next run."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walras.demo_nodes.leftovers import end_leftovers
from walras.demo_nodes.training import JOURNAL

MARK: Final = ".walras-demo-nodes"
FACTS: Final = "facts.json"
TIMELINE: Final = "timeline.svg"


class FolderInUseError(RuntimeError):
    """The folder holds things that are not the demo's, or another run works there."""

    code = "folder_in_use"
    retriable = False


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The places below the folder of a run."""

    root: Path

    @property
    def logs(self) -> Path:
        """A log file a process."""
        return self.root / "logs"

    @property
    def jobs(self) -> Path:
        """The job files, as ``walras submit`` takes them."""
        return self.root / "jobs"

    @property
    def nodes(self) -> Path:
        """A folder a node."""
        return self.root / "nodes"

    @property
    def checkpoints(self) -> Path:
        """What all nodes share: a folder a job."""
        return self.root / "checkpoints"

    def state(self, node: str) -> Path:
        """Return where the agent of a node keeps its state."""
        return self.nodes / node / "state"

    def devices(self, node: str) -> Path:
        """Return where the devices of a node are."""
        return self.nodes / node / "devices"

    def journal(self, key: str) -> Path:
        """Return the journal of a job, by its key ``team/job``."""
        return self.checkpoints / key / JOURNAL

    def saved(self, key: str) -> Path:
        """Return the checkpoints of a job, by its key."""
        return self.checkpoints / key / "saved"


@contextmanager
def fresh_folders(out: Path) -> Iterator[NodeFolders]:
    """Make the folder of a run, or empty that of an older one; it is this run's until the end.

    What an older run that was killed left running there is ended first.

    Raises
    ------
    FolderInUseError
        It holds other things, or another run works there.
    """
    folders = NodeFolders(out.resolve())
    _expect_ours(folders.root)
    folders.root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folders.root / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUseError(
                f"another run of the demo works in {folders.root}; end it first, or name another "
                "folder with --out"
            ) from None
        _empty(folders)
        yield folders
    finally:
        os.close(descriptor)


def _expect_ours(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise FolderInUseError(f"{root} is no folder; name another one with --out")
    if root.is_dir() and any(root.iterdir()) and not (root / MARK).exists():
        raise FolderInUseError(
            f"{root} is not empty, and what it holds is not of this demo; name another folder "
            "with --out, or empty it"
        )


def _empty(folders: NodeFolders) -> None:
    if folders.nodes.is_dir():
        end_leftovers([folders.state(node.name) for node in sorted(folders.nodes.iterdir())])
    for place in (folders.logs, folders.jobs, folders.nodes, folders.checkpoints):
        if place.exists():
            shutil.rmtree(place)
        place.mkdir()
    for name in (FACTS, TIMELINE):
        (folders.root / name).unlink(missing_ok=True)
