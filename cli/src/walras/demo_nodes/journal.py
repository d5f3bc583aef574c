"""The journals of the training jobs: what each process of a job did, as it told itself."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of a job, from its first line to its last.

    ``steps`` are those that it made, ``losses`` theirs; ``saved`` the steps that it saved after;
    ``ended`` is ``leaves``, ``finished``, or empty where it did not say.
    """

    attempt: int
    lease: str
    node: str
    devices: tuple[int, ...]
    begins_after: int
    begins_ms: int
    begins_digest: str
    ended: str
    ends_ms: int
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    saved: tuple[int, ...]
    last_digest: str
    """Of the weights when it saved or finished last; empty where it did neither."""


@dataclass(frozen=True, slots=True)
class TrainingJournal:
    """All attempts of a job, in the order in which they began."""

    attempts: tuple[Attempt, ...] = field(default=())

    @property
    def last_step(self) -> int:
        """The last step that was made; 0 before there is one."""
        return max((step for each in self.attempts for step in each.steps), default=0)


def read_journal(path: Path) -> TrainingJournal:
    """Read a journal; a last line that is not whole is left out, a file that is not there empty."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return TrainingJournal()
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    by_attempt: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        by_attempt.setdefault(line["attempt"], []).append(line)
    return TrainingJournal(tuple(_attempt(each) for each in by_attempt.values()))


def _attempt(lines: list[dict[str, Any]]) -> Attempt:
    first, last = lines[0], lines[-1]
    steps = [line for line in lines if line["what"] == "step"]
    digests = [line["digest"] for line in lines[1:] if "digest" in line]
    return Attempt(
        attempt=first["attempt"],
        lease=first["lease"],
        node=first["node"],
        devices=tuple(first["devices"]),
        begins_after=first["step"],
        begins_ms=first["at_ms"],
        begins_digest=first["digest"],
        ended=last["what"] if last["what"] in {"leaves", "finished"} else "",
        ends_ms=last["at_ms"],
        steps=tuple(line["step"] for line in steps),
        losses=tuple(line["loss"] for line in steps),
        saved=tuple(line["step"] for line in lines if line["what"] == "saved"),
        last_digest=digests[-1] if digests else "",
    )
