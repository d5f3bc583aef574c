"""What a report reads: records of the log, by topic, as they came from the broker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from walras_runtime.records import BARRIER_KEY_PREFIX

PREVIOUS_COMMIT_HEADER = "walras_previous_commit_ms"
"""Header of a barrier: wall clock at which the previous step's transaction was committed."""


class ReportError(ValueError):
    """The log does not hold what a report needs."""

    code = "report_incomplete"
    retriable = False


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One committed record; ``timestamp_ms`` is its sender's wall clock, not market time."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    type: str
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)

    def barrier_number(self) -> int:
        """Return the number of a barrier; its key tells it in some topics only.

        Raises
        ------
        ReportError
            The payload is not a barrier's.
        """
        number = self.body().get("barrier")
        if not self.key.startswith(BARRIER_KEY_PREFIX) or type(number) is not int:
            raise ReportError(f"{self._place()}: {self.key!r} is not a barrier")
        return number

    def body(self) -> dict[str, Any]:
        """Return the payload as a JSON object.

        Raises
        ------
        ReportError
            The record has no payload, or one that is not a JSON object.
        """
        try:
            document = from_json(self.value or b"", cache_strings="keys")
        except ValueError as error:
            raise ReportError(f"{self._place()}: {error}") from error
        if isinstance(document, dict):
            return document
        raise ReportError(f"{self._place()}: not a JSON object")

    def _place(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


Topics = Mapping[str, Iterable[LogRecord]]
"""Records by short topic name. Each iterable is read once; within a partition in offset order."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the report knows about the run beside the log.

    ``trace_facts`` are counts of the replayed trace; ``run`` is free text about the machine and the
    processes. Neither enters a digest.
    """

    scenario: str
    title: str
    seed: int
    hours: int
    start_ms: int
    end_ms: int
    interval_ms: int
    real: tuple[str, ...]
    invented: tuple[str, ...]
    trace: Mapping[str, str]
    trace_facts: Mapping[str, int]
    devices_by_type: Mapping[str, int]
    pool_of_team: Mapping[str, str]
    policies: Mapping[str, str | int] = field(default_factory=dict)
    """Of rounding and retention, as the accounts of the replay ask for them."""
    run: Mapping[str, str | int] = field(default_factory=dict)
