"""Control groups, version 2: where they are permitted, all of a part is ended in one stroke."""

from contextlib import suppress
from pathlib import Path


class Cgroup:
    """A cgroup in which each part gets one of its own.

    Parameters
    ----------
    directory
        Of a cgroup (version 2) in which this user may make others.

    Raises
    ------
    OSError
        It is not there, or may not be used.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        probe = directory.joinpath("walras-probe")
        probe.mkdir(exist_ok=True)
        try:
            if not probe.joinpath("cgroup.kill").exists():
                raise FileNotFoundError(f"{directory} is no cgroup of version 2 with cgroup.kill")
        finally:
            probe.rmdir()

    def _of(self, lease: str) -> Path:
        return self._directory.joinpath(f"walras-{lease}")

    def make(self, lease: str) -> Path:
        """Make the cgroup of a part; its first process enters it before it becomes the job."""
        path = self._of(lease)
        path.mkdir(exist_ok=True)
        return path

    def members(self, lease: str) -> list[int]:
        """Return the processes in the cgroup of a part."""
        try:
            text = self._of(lease).joinpath("cgroup.procs").read_text("ascii")
        except OSError:
            return []
        return [int(word) for word in text.split()]

    def kill(self, lease: str) -> None:
        """Kill all in the cgroup of a part."""
        with suppress(OSError):
            self._of(lease).joinpath("cgroup.kill").write_text("1", "ascii")

    def remove(self, lease: str) -> None:
        """Remove the cgroup of a part; one that is not empty stays."""
        with suppress(OSError):
            self._of(lease).rmdir()
