"""Checkpoints that can be loaded after a kill at any byte, and are safe from older attempts."""

import errno
import logging
import operator
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, SupportsIndex

from walras_job.attempts import (
    CheckpointName,
    Listing,
    claim_name,
    list_directory,
    write_claim,
)
from walras_job.checkpoint_format import Label, Payload, write_checkpoint
from walras_job.disk_faults import read_fault, write_fault
from walras_job.durable import make_directory, sync_directory
from walras_job.errors import StaleAttemptError
from walras_job.part import attempt_of
from walras_job.protocol import ATTEMPT_VARIABLE, WHOLE_MAX
from walras_job.saved import Saved, find_whole
from walras_job.writing import sweep, temporary_file

_ROTTEN: Final = errno.EIO
"""The medium does not give the bytes: as good as damaged. Other faults may pass, so they raise."""

_log = logging.getLogger("walras_job")


class Checkpoint:
    """The checkpoints of one writer in a directory of their own.

    To open it claims the directory for this attempt: from then on no lower one can save there. A
    save is written beside, forced to disk and renamed; older ones go only after that. Files that a
    dead process was writing are swept. Threads that save wait for each other.

    Parameters
    ----------
    directory
        Made if it is not there. Parts of a gang need one each.
    keep
        How many to keep, at least 1. With 1 a damaged disk block can take the only one.
    attempt
        Left out: that of the environment. Outside Walras: that of whoever saved there last, so
        nothing is claimed.

    Raises
    ------
    StaleAttemptError
        A later attempt owns the directory.
    CheckpointWriteError, CheckpointReadError
        The directory cannot be made, claimed or read.
    """

    def __init__(
        self, directory: str | os.PathLike[str], keep: int = 2, attempt: int | None = None
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep is {keep}; at least 1 checkpoint has to be kept")
        given = attempt_of(os.environ) if attempt is None else attempt
        if given is not None and not 0 <= given <= WHOLE_MAX:
            raise ValueError(f"attempt is {given}; it must be from 0 to {WHOLE_MAX}")
        self.directory = Path(directory).absolute()
        self.keep = keep
        self._lock = threading.Lock()
        self._lock_owner = os.getpid()
        try:
            make_directory(self.directory)
        except OSError as error:
            raise write_fault(self.directory, error) from error
        self.attempt = self._list().owner if given is None else given
        if given is not None:
            self._claim()
        sweep(self.directory, self._list(), self.attempt)

    def save(self, payload: Payload, step: SupportsIndex) -> Saved:
        """Save; at the return it is on disk, and what is older than the ``keep`` newest is gone.

        Parameters
        ----------
        payload
            The bytes, or a function that writes them to the stream it is given, without seeking.
            What it raises is passed on, and nothing has changed.
        step
            What to go on after, from 0; it may be lower than before, the later save counts.

        Raises
        ------
        CheckpointFullError
            There is no room. The checkpoints before it are untouched.
        CheckpointWriteError
            The disk failed in another way. The checkpoints before it are untouched.
        StaleAttemptError
            A later attempt owns the directory: end without saving.
        """
        number = operator.index(step)
        if not 0 <= number <= WHOLE_MAX:
            raise ValueError(f"step is {number}; it must be from 0 to {WHOLE_MAX}")
        with self._lock_of_this_process():
            return self._save(payload, number)

    def latest(self) -> Saved | None:
        """Return the newest checkpoint that is whole; None where there is none.

        Damaged ones are passed over, and logged.

        Raises
        ------
        CheckpointReadError
            A newer one is there and cannot be read now: whether it is whole is not known.
        """
        return next(iter(self._whole(at_most=1)), None)

    def saved(self) -> list[Saved]:
        """Return all that are whole, newest first: for parts that have to agree on a step."""
        return self._whole(at_most=None)

    def _save(self, payload: Payload, step: int) -> Saved:
        listing = self._list()
        self._must_own(listing)
        own = (name.number for name in listing.checkpoints if name.attempt == self.attempt)
        name = CheckpointName(self.attempt, max(own, default=0) + 1, step)
        path = self.directory / str(name)
        with temporary_file(self.directory, self.attempt) as (descriptor, beside):
            label = Label(step, name.attempt, name.number)
            payload_bytes = write_checkpoint(descriptor, path, label, payload)
            self._must_own(self._list())
            try:
                os.fsync(descriptor)
                beside.rename(path)
                sync_directory(self.directory)
            except OSError as error:
                # A later attempt sweeps what lower ones are writing.
                self._must_own(self._list())
                raise write_fault(path, error) from error
        # An attempt that claims the directory at this moment finds the new one and the old ones.
        # Ours goes by its name before all of theirs, so it cannot take their place.
        listing = self._list()
        self._must_own(listing)
        self._prune(listing)
        return Saved(step, path, name.attempt, name.number, payload_bytes)

    def _whole(self, at_most: int | None) -> list[Saved]:
        gone: set[CheckpointName] = set()
        while True:
            found: list[Saved] = []
            for name in self._list().checkpoints:
                try:
                    saved = self._find(name)
                except FileNotFoundError:
                    if name in gone:
                        continue
                    # Pruned since it was listed, so there are newer ones: list again.
                    gone.add(name)
                    break
                if saved is not None:
                    found.append(saved)
                if len(found) == at_most:
                    return found
            else:
                return found

    def _find(self, name: CheckpointName) -> Saved | None:
        """Return one if it is whole; raise FileNotFoundError if it is not there any more."""
        try:
            saved = find_whole(self.directory, name)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno != _ROTTEN:
                raise read_fault(self.directory / str(name), error) from error
            saved = None
        if saved is None:
            _log.warning("%s is damaged; passed over", self.directory / str(name))
        return saved

    def _list(self) -> Listing:
        try:
            return list_directory(self.directory)
        except OSError as error:
            raise read_fault(self.directory, error) from error

    def _must_own(self, listing: Listing) -> None:
        if listing.owner > self.attempt:
            raise StaleAttemptError(
                f"attempt {self.attempt} may not save in {self.directory}: attempt "
                f"{listing.owner} of the job has begun there. End this process without saving; "
                f"to work by hand, leave {ATTEMPT_VARIABLE} unset"
            )

    def _claim(self) -> None:
        self._must_own(self._list())
        try:
            write_claim(self.directory, self.attempt)
        except OSError as error:
            raise write_fault(self.directory, error) from error
        listing = self._list()
        self._must_own(listing)
        for lower in listing.claims:
            if lower < self.attempt:
                with suppress(OSError):
                    (self.directory / claim_name(lower)).unlink(missing_ok=True)

    def _prune(self, listing: Listing) -> None:
        for name in listing.checkpoints[self.keep :]:
            path = self.directory / str(name)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("%s could not be removed: %s", path, error.strerror)

    def _lock_of_this_process(self) -> threading.Lock:
        # A thread of the parent may have held it when this process was forked off.
        if self._lock_owner != os.getpid():
            self._lock = threading.Lock()
            self._lock_owner = os.getpid()
        return self._lock
