"""How a program that knows nothing of Walras gets its state saved, and how one sees that it is."""

from pathlib import Path
from typing import Protocol

from walras_job.launch.replaced_file import ReplacedFile
from walras_job.protocol import DrainWarning


class Saving(Protocol):
    """One way to get everything saved, for one warning after the other."""

    def begin(self, warning: DrainWarning, left_s: float, program: int | None) -> None:
        """Start for a warning whose deadline is ``left_s`` seconds away.

        ``program`` is the process of the program; None where it has ended.
        """

    def saved(self) -> bool:
        """Look, and say whether everything has been saved since it began."""

    def process_id(self) -> int | None:
        """Return the process that saves, which the launcher waits for; None where none runs."""

    def waits_for(self) -> str:
        """Say what is missing, for the agent's list of blockers."""

    def checkpoint(self) -> str | None:
        """Return where it is saved, if that is known."""


class Stateless:
    """There is nothing to save."""

    def begin(self, warning: DrainWarning, left_s: float, program: int | None) -> None:
        """Do nothing."""

    def saved(self) -> bool:
        """Say yes."""
        return True

    def process_id(self) -> int | None:
        """Name none."""
        return None

    def waits_for(self) -> str:
        """Name nothing."""
        return "nothing"

    def checkpoint(self) -> str | None:
        """Name nothing."""
        return None


class NoSaving(Stateless):
    """Nothing can be done, so nothing is ever said to be saved: the deadline decides."""

    def saved(self) -> bool:
        """Say no."""
        return False

    def waits_for(self) -> str:
        """Say that nothing is to be expected."""
        return "the deadline: this program cannot be asked to save"


class CheckpointFile(Stateless):
    """The program saves when it likes, by renaming over one path; that is waited for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: ReplacedFile | None = None
        self._trouble = ""

    def begin(self, warning: DrainWarning, left_s: float, program: int | None) -> None:
        """Remember the file that is there now."""
        del warning, left_s, program
        if self._file is not None:
            self._file.close()
            self._file = None
        try:
            self._file = ReplacedFile(self._path)
        except OSError as error:
            # What is there is not known, so neither is whether it was replaced.
            self._trouble = f" ({error.strerror})"

    def saved(self) -> bool:
        """Whether another file is there."""
        try:
            return self._file is not None and self._file.replaced()
        except OSError as error:
            self._trouble = f" ({error.strerror})"
            return False

    def waits_for(self) -> str:
        """Name the file."""
        return f"{self._path} to be replaced{self._trouble}"

    def checkpoint(self) -> str | None:
        """Return the path."""
        return str(self._path)
