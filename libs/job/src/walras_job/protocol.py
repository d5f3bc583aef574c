"""What the node agent and a part of a job say to each other: every name, file and field.

Pure: bytes in, values out. The rules around them are in the README of this package.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from walras_job.errors import DocumentUnreadableError

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

# Set by the launcher for its warning command.
SESSION_VARIABLE: Final = "WALRAS_SESSION"
REASON_VARIABLE: Final = "WALRAS_REASON"
DEADLINE_VARIABLE: Final = "WALRAS_DEADLINE_MS"
CHILD_VARIABLE: Final = "WALRAS_CHILD_PID"

WARNING_FILE: Final = "warning.json"
CANCEL_FILE: Final = "cancel.json"
DONE_FILE: Final = "done.json"
PROGRESS_FILE: Final = "progress.json"

DOCUMENT_BYTES_MAX: Final = 65_536
SESSION_CHARACTERS_MAX: Final = 256
TEXT_CHARACTERS_MAX: Final = 1_000
"""Longer reasons and progress texts are cut, not refused."""
PATH_CHARACTERS_MAX: Final = 4_096
WHOLE_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DrainWarning:
    """By the agent: what runs here has to leave. Times are wall clock, ms since the epoch, UTC."""

    session: str
    reason: str
    deadline_ms: int
    warned_ms: int

    def encode(self) -> bytes:
        """Return the file's body."""
        return _encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return what the bytes say; unknown fields are ignored.

        Raises
        ------
        DocumentUnreadableError
            The bytes are not such a document.
        """
        fields = _Fields(body)
        return cls(
            session=fields.session(),
            reason=fields.text("reason"),
            deadline_ms=fields.whole("deadline_ms"),
            warned_ms=fields.whole("warned_ms"),
        )


@dataclass(frozen=True, slots=True)
class DrainCancel:
    """By the agent: the drain of this session, and of no other, is off."""

    session: str

    def encode(self) -> bytes:
        """Return the file's body."""
        return _encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return what the bytes say; raise DocumentUnreadableError where they say nothing."""
        return cls(_Fields(body).session())


@dataclass(frozen=True, slots=True)
class DrainDone:
    """By the job: everything is saved, for this session and for no other."""

    session: str
    step: int | None = None
    checkpoint: str | None = None

    def encode(self) -> bytes:
        """Return the file's body."""
        return _encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return what the bytes say; raise DocumentUnreadableError where they say nothing."""
        fields = _Fields(body)
        return cls(
            session=fields.session(),
            step=None if fields.absent("step") else fields.whole("step"),
            checkpoint=None if fields.absent("checkpoint") else fields.path("checkpoint"),
        )


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """By the job: what it is waiting for, to be named among the blockers of the session."""

    session: str
    text: str

    def encode(self) -> bytes:
        """Return the file's body."""
        return _encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return what the bytes say; raise DocumentUnreadableError where they say nothing."""
        fields = _Fields(body)
        return cls(fields.session(), fields.text("text"))


def _encode(document: DrainWarning | DrainCancel | DrainDone | DrainProgress) -> bytes:
    """Return the body; raise ValueError where the other side would not read it as it is here."""
    body = json.dumps(asdict(document), sort_keys=True).encode() + b"\n"
    try:
        read = type(document).decode(body)
    except DocumentUnreadableError as error:
        raise ValueError(f"{document} cannot be told: {error}") from error
    if read != document:
        raise ValueError(f"{document} cannot be told: a text is too long")
    return body


class _Fields:
    """One JSON object, read field by field."""

    def __init__(self, body: bytes) -> None:
        if len(body) > DOCUMENT_BYTES_MAX:
            raise DocumentUnreadableError(f"longer than {DOCUMENT_BYTES_MAX} bytes")
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DocumentUnreadableError(f"no JSON: {error}") from error
        if not isinstance(values, dict):
            raise DocumentUnreadableError("no JSON object")
        self._values: dict[str, Any] = values

    def absent(self, name: str) -> bool:
        return self._values.get(name) is None

    def session(self) -> str:
        value = self._string("session")
        if not 0 < len(value) <= SESSION_CHARACTERS_MAX:
            raise DocumentUnreadableError(
                f"session: must have 1 to {SESSION_CHARACTERS_MAX} characters"
            )
        return value

    def text(self, name: str) -> str:
        return self._string(name)[:TEXT_CHARACTERS_MAX]

    def path(self, name: str) -> str:
        value = self._string(name)
        if len(value) > PATH_CHARACTERS_MAX:
            raise DocumentUnreadableError(f"{name}: longer than {PATH_CHARACTERS_MAX} characters")
        return value

    def whole(self, name: str) -> int:
        value = self._values.get(name)
        # A bool is an int in Python and a mistake here.
        if type(value) is not int or not 0 <= value <= WHOLE_MAX:
            raise DocumentUnreadableError(f"{name}: must be an integer from 0 to {WHOLE_MAX}")
        return value

    def _string(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str):
            raise DocumentUnreadableError(f"{name}: must be a string")
        return value
