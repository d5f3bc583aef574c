"""A checkpoint that was found whole, and how it is read."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from walras_job.attempts import CheckpointName
from walras_job.checkpoint_format import open_payload, read_label
from walras_job.disk_faults import read_fault


@dataclass(frozen=True, slots=True)
class Saved:
    """One checkpoint. ``number`` counts the saves of its attempt, from 1."""

    step: int
    path: Path
    attempt: int
    number: int
    payload_bytes: int

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def open(self) -> BinaryIO:
        """Return the payload as a stream that can seek, for loaders that want a file.

        Raises
        ------
        CheckpointReadError
            It is there no more, or cannot be read now.
        """
        try:
            return open_payload(self.path, self.payload_bytes)
        except OSError as error:
            raise read_fault(self.path, error) from error

    def read(self) -> bytes:
        """Return the payload; raise CheckpointReadError where it cannot be read now."""
        with self.open() as stream:
            try:
                return stream.read()
            except OSError as error:
                raise read_fault(self.path, error) from error


def find_whole(directory: Path, name: CheckpointName) -> Saved | None:
    """Return a checkpoint if every byte of it is as it was written, and it has its own name.

    Raises
    ------
    OSError
        It cannot be read.
    """
    path = directory / str(name)
    found = read_label(path)
    if found is None:
        return None
    label, payload_bytes = found
    if CheckpointName(label.attempt, label.number, label.step) != name:
        return None
    return Saved(label.step, path, label.attempt, label.number, payload_bytes)
