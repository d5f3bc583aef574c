"""What agent and job say to each other: names of variables and files, and what stands in them.

Pure: values in, documents out. The job's side is the job library; both keep to the same files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TEAM_VARIABLE: Final = "WALRAS_TEAM"
JOB_VARIABLE: Final = "WALRAS_JOB"
LEASE_VARIABLE: Final = "WALRAS_LEASE"
NODE_VARIABLE: Final = "WALRAS_NODE"
ATTEMPT_VARIABLE: Final = "WALRAS_ATTEMPT"
PART_VARIABLE: Final = "WALRAS_PART"
PARTS_VARIABLE: Final = "WALRAS_PARTS"
DEVICES_VARIABLE: Final = "WALRAS_DEVICES"
CONTROL_DIRECTORY_VARIABLE: Final = "WALRAS_CONTROL_DIR"
CHECKPOINT_DIRECTORY_VARIABLE: Final = "WALRAS_CHECKPOINT_DIR"

WARNING_FILE: Final = "warning.json"
CANCEL_FILE: Final = "cancel.json"
DONE_FILE: Final = "done.json"
PROGRESS_FILE: Final = "progress.json"
PROGRESS_TEXT_MOST: Final = 300

_SUCCESS: Final = range(200, 300)
_ACCEPTED: Final = 202


def warning(session: str, reason: str, warned_ms: int, deadline_ms: int) -> dict[str, Any]:
    """Return what the warning file says; times are wall clock, ms since the epoch.

    The deadline is when SIGTERM comes: until then nothing disturbs the job.
    """
    return {
        "session": session,
        "reason": reason,
        "deadline_ms": deadline_ms,
        "warned_ms": warned_ms,
    }


def cancel(session: str) -> dict[str, Any]:
    """Return what the cancel file says."""
    return {"session": session}


@dataclass(frozen=True, slots=True)
class Answers:
    """What a job says of one drain: whether all is saved, what it waits for ("" nothing)."""

    saved: bool = False
    waits_for: str = ""


def answers(
    session: str, done: Mapping[str, Any] | None, progress: Mapping[str, Any] | None
) -> Answers:
    """Return what the job's files say of a drain; what they say of another means nothing."""
    text = ""
    if progress is not None and progress.get("session") == session:
        text = str(progress.get("text", ""))[:PROGRESS_TEXT_MOST] or "the job saves"
    return Answers(done is not None and done.get("session") == session, text)


def answer_of_status(status: int) -> Answers | None:
    """Return what the status of an HTTP warning means; None: the warning was not taken."""
    if status not in _SUCCESS:
        return None
    return Answers(saved=status != _ACCEPTED, waits_for="the job saves")
