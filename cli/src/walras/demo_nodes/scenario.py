"""The scenario of the demo of nodes: its file, checked, with money and times as integers."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from walras.jobs_log.units import duration_ms, micro_of
from walras.scenario import ScenarioError
from walras_contracts.accounts import DrainTerms, PositiveMs
from walras_contracts.identifiers import ID_PATTERN, Id, Text, job_key
from walras_contracts.json_path import json_path
from walras_contracts.quantities import DurationMs, LimitMicro


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text in quotes")
    return value


Money = Annotated[LimitMicro, BeforeValidator(lambda value: micro_of(_text(value)))]
"""Credits in the file, µcr here."""
Time = Annotated[DurationMs, BeforeValidator(lambda value: duration_ms(_text(value)))]
"""With a unit in the file, ms here."""
LongTime = Annotated[PositiveMs, BeforeValidator(lambda value: duration_ms(_text(value)))]
Few = Annotated[int, Field(ge=1, le=1000)]
NodeName = Annotated[str, StringConstraints(pattern=ID_PATTERN)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Facts(_Table):
    """What is real and what is invented."""

    real: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    invented: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]


class Market(_Table):
    """The one market, and the pace of everything."""

    type: Id
    reserve: Money
    partitions: Annotated[int, Field(ge=1, le=16)]
    interval: LongTime
    cycle_every: Few
    held_back_cycles: Few
    price_grace: Time


class Nodes(_Table):
    """The nodes; each has as many devices."""

    names: Annotated[tuple[NodeName, ...], Field(min_length=2, max_length=16, strict=False)]
    devices: Annotated[int, Field(ge=1, le=64)]


class Drains(_Table):
    """The platform's terms of drains; what is not named is as by default."""

    warning: LongTime
    terminate: LongTime
    verify: LongTime
    billing_grace: LongTime

    def terms(self) -> DrainTerms:
        """Return them as the platform's document has them."""
        return DrainTerms(
            warning_ms=self.warning,
            terminate_ms=self.terminate,
            verify_ms=self.verify,
            billing_grace_ms=self.billing_grace,
        )


class TrainingJob(_Table):
    """A job that takes a whole node; it is submitted once the first job made ``after_step``."""

    team: Id
    job: Id
    limit: Money
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    step: Time
    """Rest after each step."""
    save: Time
    """So long a save takes at least."""
    every: Annotated[int, Field(ge=1)]
    """Steps between two saves."""
    after_step: Annotated[int, Field(ge=0)] = 0

    @property
    def key(self) -> str:
        """``team/job``."""
        return job_key(self.team, self.job)


class NodesScenario(_Table):
    """All of it. The first job is the one whose story is told."""

    title: Text
    facts: Facts
    market: Market
    nodes: Nodes
    drains: Drains
    incomes: dict[Id, Money]
    jobs: Annotated[tuple[TrainingJob, ...], Field(min_length=2, strict=False)]

    @property
    def subject(self) -> TrainingJob:
        """The job that leaves and goes on elsewhere."""
        return self.jobs[0]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for job in self.jobs:
            if job.team not in self.incomes:
                raise ValueError(f"team {job.team} of job {job.key} has no income")
        if self.subject.after_step:
            raise ValueError("the first job waits for its own steps")
        if not any(job.after_step for job in self.jobs):
            raise ValueError("no job comes after the first ones: there is nothing to raise a price")
        if len({job.key for job in self.jobs}) < len(self.jobs):
            raise ValueError("two jobs have the same name")
        return self


def load_nodes_scenario(path: Path) -> NodesScenario:
    """Read a scenario.

    Raises
    ------
    ScenarioError
        It cannot be used; every fault is named with its path.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        return NodesScenario.model_validate(document)
    except ValidationError as error:
        faults = [f"{json_path(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise ScenarioError(path, faults) from error
    except (OSError, ValueError) as error:
        raise ScenarioError(path, [str(error)]) from error
