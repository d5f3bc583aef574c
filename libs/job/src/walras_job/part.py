"""Which part of which job this process is, as the node agent says in the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from walras_job.errors import PartEnvironmentError
from walras_job.protocol import (
    ATTEMPT_VARIABLE,
    CHECKPOINT_DIRECTORY_VARIABLE,
    CONTROL_DIRECTORY_VARIABLE,
    DEVICES_VARIABLE,
    JOB_VARIABLE,
    LEASE_VARIABLE,
    NODE_VARIABLE,
    PART_VARIABLE,
    PARTS_VARIABLE,
    TEAM_VARIABLE,
    WHOLE_MAX,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a lease: its process on its node.

    ``attempt`` grows from start to start of a job, over its leases too. ``part`` counts from 0 to
    ``parts - 1``. ``control_directory`` is private to this part, ``checkpoint_directory`` outlives
    the lease and is shared by all parts of the job.
    """

    team: str
    job: str
    lease: str
    node: str
    attempt: int
    part: int
    parts: int
    devices: tuple[int, ...]
    control_directory: Path
    checkpoint_directory: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """Return what the environment says; None outside Walras.

        Raises
        ------
        PartEnvironmentError
            There is a control directory, but another variable is missing or wrong.
        """
        values = os.environ if environment is None else environment
        control = control_directory_of(values)
        if control is None:
            return None
        parts = _whole(values, PARTS_VARIABLE)
        part = _whole(values, PART_VARIABLE)
        if part >= parts:
            raise PartEnvironmentError(
                f"{PART_VARIABLE} is {part}: parts count from 0, and {PARTS_VARIABLE} is {parts}"
            )
        return cls(
            team=_text(values, TEAM_VARIABLE),
            job=_text(values, JOB_VARIABLE),
            lease=_text(values, LEASE_VARIABLE),
            node=_text(values, NODE_VARIABLE),
            attempt=_whole(values, ATTEMPT_VARIABLE),
            part=part,
            parts=parts,
            devices=_devices(values),
            control_directory=control,
            checkpoint_directory=Path(_text(values, CHECKPOINT_DIRECTORY_VARIABLE)),
        )

    def to_environment(self) -> dict[str, str]:
        """Return the variables that say this; what an agent adds to those of the process."""
        return {
            TEAM_VARIABLE: self.team,
            JOB_VARIABLE: self.job,
            LEASE_VARIABLE: self.lease,
            NODE_VARIABLE: self.node,
            ATTEMPT_VARIABLE: str(self.attempt),
            PART_VARIABLE: str(self.part),
            PARTS_VARIABLE: str(self.parts),
            DEVICES_VARIABLE: ",".join(map(str, self.devices)),
            CONTROL_DIRECTORY_VARIABLE: str(self.control_directory),
            CHECKPOINT_DIRECTORY_VARIABLE: str(self.checkpoint_directory),
        }


def control_directory_of(environment: Mapping[str, str]) -> Path | None:
    """Return the control directory; None outside Walras (unset or empty)."""
    name = environment.get(CONTROL_DIRECTORY_VARIABLE)
    return Path(name) if name else None


def attempt_of(environment: Mapping[str, str]) -> int | None:
    """Return the attempt; None outside Walras (unset or empty).

    Raises
    ------
    PartEnvironmentError
        It is no number.
    """
    return _whole(environment, ATTEMPT_VARIABLE) if environment.get(ATTEMPT_VARIABLE) else None


def _text(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if not value:
        raise PartEnvironmentError(f"{name} is not set; the node agent sets it for every part")
    return value


def _whole(values: Mapping[str, str], name: str) -> int:
    text = _text(values, name)
    if not (text.isascii() and text.isdigit() and int(text) <= WHOLE_MAX):
        raise PartEnvironmentError(f"{name} is {text!r}; it must be an integer from 0")
    return int(text)


def _devices(values: Mapping[str, str]) -> tuple[int, ...]:
    text = values.get(DEVICES_VARIABLE)
    if text is None:
        raise PartEnvironmentError(f"{DEVICES_VARIABLE} is not set; no devices are an empty one")
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise PartEnvironmentError(
            f"{DEVICES_VARIABLE} is {text!r}; it must be indices with commas between, like 0,1"
        )
    return tuple(map(int, words))
