"""The one error of this package: a code, what is wrong, and what to do about it."""

from pathlib import Path

LOG_TAIL_LINES = 20


class LauncherError(Exception):
    """A server could not be prepared, started, or controlled.

    Parameters
    ----------
    code
        Stable name of the failure, for example ``java_missing``.
    message
        What is wrong, in one sentence.
    remedy
        What the reader can do about it.
    retriable
        Whether the same call may pass later without any change on the machine.
    """

    def __init__(self, code: str, message: str, remedy: str, *, retriable: bool = False) -> None:
        super().__init__(f"[{code}] {message} What to do: {remedy}")
        self.code = code
        self.message = message
        self.remedy = remedy
        self.retriable = retriable


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log file, or a note that there is none.

    Parameters
    ----------
    path
        The log file.
    lines
        How many lines at most.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"(no log at {path})"
    return "\n".join(text.splitlines()[-lines:]) or f"(empty log at {path})"
