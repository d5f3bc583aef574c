"""Where the once-only work is kept, and run directories that clean up after the dead."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from walras_launcher.errors import LauncherError

CACHE_VARIABLE = "WALRAS_CACHE_DIR"
_OWNER = ".owner"


def checkout(start: Path | None = None) -> Path:
    """Return the checkout: the nearest directory with ``uv.lock`` above ``start``.

    Where there is none, the one that this package is installed from in place, so that a process
    with another working directory does not fetch a second broker; where that is none either,
    ``start`` itself.

    Parameters
    ----------
    start
        Where to begin; the working directory if left out.
    """
    here = (start or Path.cwd()).resolve()
    for place in (here, Path(__file__).resolve()):
        for candidate in (place, *place.parents):
            if (candidate / "uv.lock").is_file():
                return candidate
    return here


def cache_root(environment: Mapping[str, str] | None = None) -> Path:
    """Return the cache directory: ``WALRAS_CACHE_DIR``, else ``.cache`` in the checkout.

    Parameters
    ----------
    environment
        Variables to look at; this process's own if left out.
    """
    given = (os.environ if environment is None else environment).get(CACHE_VARIABLE)
    return Path(given).resolve() if given else checkout() / ".cache"


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a file lock: one process at a time, freed by the kernel if the holder dies.

    Parameters
    ----------
    lock
        The lock file; made with its directory where missing, never removed.

    Raises
    ------
    LauncherError
        ``cache_unwritable``.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.open("ab")
    except OSError as error:
        raise LauncherError(
            "cache_unwritable",
            f"{lock.parent} cannot be written: {error.strerror}.",
            f"Make it writable, or point {CACHE_VARIABLE} at another directory.",
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class RunDirectory:
    """A server's own directory; a temporary one is removed by :meth:`close`.

    The owner holds a lock inside a temporary directory as long as it lives. Directories whose
    owner was killed are unlocked, and the next owner removes them.

    Parameters
    ----------
    path
        The directory to use and to keep, or nothing for a temporary one.
    parent
        Where temporary directories are made.
    prefix
        Start of the temporary directory's name.

    Raises
    ------
    LauncherError
        ``directory_unusable`` or ``cache_unwritable``.
    """

    def __init__(self, path: Path | None, parent: Path, prefix: str) -> None:
        self.temporary = path is None
        self._lock: int | None = None
        if path is not None:
            self.path = _made(path)
            return
        with exclusive(parent / ".sweep"):
            sweep(parent)
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            self._lock = os.open(self.path / _OWNER, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove a temporary directory with all that is in it; keep any other."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LauncherError(
            "directory_unusable",
            f"{path} cannot be made: {error.strerror}.",
            "Give another directory, or none for a temporary one.",
        ) from error
    return path.resolve()


def sweep(parent: Path) -> list[Path]:
    """Remove the temporary directories whose owners are dead, and return them.

    Parameters
    ----------
    parent
        Where temporary directories are made; its ``.sweep`` lock is held by the caller.
    """
    removed = []
    for directory in sorted(parent.iterdir()):
        try:
            owner = os.open(directory / _OWNER, os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(owner)
        shutil.rmtree(directory, ignore_errors=True)
        removed.append(directory)
    return removed
