"""What the commands about jobs and nodes refuse: a code, what is wrong and where, what to do."""

from enum import StrEnum


class Fault(StrEnum):
    """Stable codes; ``docs/jobs.md`` lists them."""

    NO_BROKER = "no_broker"
    BAD_ADDRESS = "bad_address"
    BROKER_UNAVAILABLE = "broker_unavailable"
    TOPIC_MISSING = "topic_missing"
    UNKNOWN_EVENT_VERSION = "unknown_event_version"
    NOT_WRITTEN = "not_written"
    BAD_ARGUMENT = "bad_argument"
    BAD_FILE = "bad_file"
    BAD_FIELD = "bad_field"
    UNKNOWN_JOB = "unknown_job"
    UNKNOWN_NODE = "unknown_node"
    JOB_EXISTS = "job_exists"
    JOB_ENDED = "job_ended"
    NOT_RUNNING = "not_running"
    NOT_DRAINING = "not_draining"
    NOT_ORDERED = "not_ordered"
    NOT_DRAINED = "not_drained"
    NODE_GONE = "node_gone"


RETRIABLE = frozenset({Fault.BROKER_UNAVAILABLE, Fault.NOT_WRITTEN, Fault.NOT_DRAINED})


class JobsLogError(Exception):
    """Something that a command cannot do.

    Parameters
    ----------
    code
        One of :class:`Fault`.
    reason
        What is wrong, and where.
    todo
        What the user can do about it; empty where the reason says it.
    """

    def __init__(self, code: Fault, reason: str, todo: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.todo = todo

    @property
    def retriable(self) -> bool:
        """Whether the same command may do later."""
        return self.code in RETRIABLE

    def line(self) -> str:
        """Return it as one line for people."""
        return f"{self.reason}{f'; {self.todo}' if self.todo else ''} [{self.code.value}]"

    def document(self) -> dict[str, str | bool]:
        """Return it for ``--json``."""
        return {
            "code": self.code.value,
            "reason": self.reason,
            "todo": self.todo,
            "retriable": self.retriable,
        }
