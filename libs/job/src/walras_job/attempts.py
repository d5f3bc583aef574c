"""Names in a checkpoint directory, and which attempt of the job owns it.

An attempt owns the directory by a name alone, ``attempt-3.claim``, and every checkpoint carries its
attempt in its name: the greatest number that is there owns it. Names are only ever added before
lower ones are removed, so two attempts that start together cannot set the owner back.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walras_job.durable import sync_directory

# One way to write a number, so that a name is what its parts say.
_NUMBER: Final = "(0|[1-9][0-9]{0,18})"
_CHECKPOINT: Final = re.compile(rf"attempt-{_NUMBER}\.save-{_NUMBER}\.step-{_NUMBER}\.checkpoint")
_CLAIM: Final = re.compile(rf"attempt-{_NUMBER}\.claim")
_TEMPORARY: Final = re.compile(rf"\.attempt-{_NUMBER}\.[0-9a-f-]+\.tmp")


@dataclass(frozen=True, slots=True, order=True)
class CheckpointName:
    """The name of a checkpoint; the later save is the greater one."""

    attempt: int
    number: int
    step: int

    def __str__(self) -> str:
        return f"attempt-{self.attempt}.save-{self.number}.step-{self.step}.checkpoint"


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a checkpoint directory; anything else in it is not ours and left alone."""

    checkpoints: tuple[CheckpointName, ...]
    """Newest first."""
    claims: tuple[int, ...]
    temporaries: tuple[tuple[int, str], ...]
    """(attempt, name) of files that are being written, or whose writer died."""

    @property
    def owner(self) -> int:
        """The highest attempt that has claimed the directory or saved in it; 0 where none has."""
        saved = (name.attempt for name in self.checkpoints)
        return max((*self.claims, *saved), default=0)


def parse_names(names: Iterable[str]) -> Listing:
    """Sort out the names of a directory."""
    checkpoints, claims, temporaries = [], [], []
    for name in sorted(names):
        if found := _CHECKPOINT.fullmatch(name):
            checkpoints.append(CheckpointName(*map(int, found.groups())))
        elif found := _CLAIM.fullmatch(name):
            claims.append(int(found[1]))
        elif found := _TEMPORARY.fullmatch(name):
            temporaries.append((int(found[1]), name))
    return Listing(
        tuple(sorted(checkpoints, reverse=True)), tuple(sorted(claims)), tuple(temporaries)
    )


def list_directory(directory: Path) -> Listing:
    """Return what is there now; raise OSError where it cannot be read."""
    return parse_names(path.name for path in directory.iterdir())


def write_claim(directory: Path, attempt: int) -> None:
    """Claim the directory for an attempt, durably; raise OSError where that fails."""
    descriptor = os.open(directory / claim_name(attempt), os.O_WRONLY | os.O_CREAT, 0o644)
    os.close(descriptor)
    sync_directory(directory)


def claim_name(attempt: int) -> str:
    """Return the name of a claim."""
    return f"attempt-{attempt}.claim"


def temporary_name(attempt: int) -> str:
    """Return a name that no other writer has, on whatever machine."""
    return f".attempt-{attempt}.{os.getpid():x}-{os.urandom(6).hex()}.tmp"
