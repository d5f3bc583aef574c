"""A demo scenario: which window of which trace, and everything that is invented around it.

The file is TOML (``scenarios/*.toml``). Unknown keys, missing keys and values out of range are
refused, all faults together, each with its path.
"""

import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from walras_contracts.accounts import PlatformDocument
from walras_contracts.demand import AcceptedTypes, Drainability
from walras_contracts.identifiers import Id, Text
from walras_contracts.json_path import json_path
from walras_contracts.quantities import (
    PPM,
    Count,
    DurationMs,
    LimitMicro,
    LocalPerHour,
    Ppm,
)
from walras_contracts.sequences import Distinct

OCTAVES_MAX = 20


class ScenarioError(ValueError):
    """The scenario or its trace cannot be used; ``faults`` lists every reason with its path."""

    code = "invalid_scenario"
    retriable = False

    def __init__(self, path: Path, faults: Iterable[str]) -> None:
        self.path = path
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{path}: {fault}" for fault in self.faults))


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Facts(_Table):
    """What is real and what is invented, for the reader of a report."""

    real: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    invented: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]


class TraceWindow(_Table):
    """The trace file (beside the scenario) and the window of it that is replayed, in seconds."""

    file: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+\.csv\.gz$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    source: Text
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    licence: Text
    origin: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    window_start_s: Count
    window_end_s: Count

    @field_validator("origin")
    @classmethod
    def _origin_is_a_time(cls, origin: str) -> str:
        datetime.fromisoformat(origin)
        return origin

    @field_validator("window_end_s")
    @classmethod
    def _window_is_whole_hours(cls, window_end_s: int, info: Any) -> int:
        start_s = info.data.get("window_start_s")
        if start_s is not None and (window_end_s <= start_s or (window_end_s - start_s) % 3600):
            raise ValueError("must be a whole number of hours after window_start_s")
        return window_end_s

    @property
    def origin_ms(self) -> int:
        """Market time of second 0 of the trace."""
        return int(datetime.fromisoformat(self.origin).astimezone(UTC).timestamp()) * 1000

    @property
    def hours(self) -> int:
        """Length of the window."""
        return (self.window_end_s - self.window_start_s) // 3600


class Clock(_Table):
    """The interval of market time between two barriers."""

    interval_ms: Annotated[int, Field(ge=1000, le=300_000)]

    @field_validator("interval_ms")
    @classmethod
    def _divides_an_hour(cls, interval_ms: int) -> int:
        if 3_600_000 % interval_ms:
            raise ValueError("must divide an hour")
        return interval_ms


class Log(_Table):
    """How the log of a replay is laid out."""

    partitions: Annotated[int, Field(ge=1, le=64)]
    """Of the topics that are spread over workers; what is decided does not depend on it."""


class TypeShare(_Table):
    """A resource type and its part of the supply."""

    type: Id
    share_ppm: Ppm


class Supply(_Table):
    """How the mean load becomes supply."""

    cell: Id
    own_share_ppm: Annotated[int, Field(ge=0, le=PPM)]
    types: Annotated[tuple[TypeShare, ...], Field(min_length=1, strict=False), Distinct("type")]


class Money(_Table):
    """What one accelerator-hour of mean load is worth in purchasing power."""

    scale_micro_per_accelerator_hour: Annotated[int, Field(ge=1, le=10**9)]


class Limits(_Table):
    """How limit prices are drawn: none, zero, or evenly over the octaves from the lowest up."""

    none_ppm: Annotated[int, Field(ge=0, le=PPM)]
    zero_ppm: Annotated[int, Field(ge=0, le=PPM)]
    lowest_micro: Annotated[LimitMicro, Field(ge=1)]
    octaves: Annotated[int, Field(ge=1, le=OCTAVES_MAX)]

    @field_validator("zero_ppm")
    @classmethod
    def _shares_fit(cls, zero_ppm: int, info: Any) -> int:
        if zero_ppm + info.data.get("none_ppm", 0) > PPM:
            raise ValueError("none_ppm and zero_ppm exceed 1,000,000 together")
        return zero_ppm


class Acceptance(_Table):
    """A list of acceptable types, preferred first, and how many jobs have it."""

    types: AcceptedTypes
    share_ppm: Ppm


class MinimumRun(_Table):
    """A minimum run time and how many jobs have it."""

    minimum_run_ms: DurationMs
    share_ppm: Ppm


class DrainClass(_Table):
    """A declared drainability and how many jobs have it."""

    declared: Annotated[Drainability, Field(strict=False)]
    share_ppm: Ppm


class Jobs(_Table):
    """What is invented about each job."""

    large_job_accelerators: Annotated[int, Field(ge=1, le=100_000)]
    limits: Limits
    accepts: Annotated[tuple[Acceptance, ...], Field(min_length=1, strict=False)]
    minimum_runs: Annotated[tuple[MinimumRun, ...], Field(min_length=1, strict=False)]
    drainability: Annotated[tuple[DrainClass, ...], Field(min_length=1, strict=False)]


class Team(_Table):
    """A team, its income and its part of the pool's jobs."""

    team: Id
    income_local_per_hour: LocalPerHour
    job_share_ppm: Ppm


class Pool(_Table):
    """A pool: a cluster of the trace and how it is funded."""

    pool: Id
    weight_factor_ppm: Ppm
    leverage_ppm: Ppm
    stated_share_ppm: Ppm | None = None
    """Part of all pools' mean load that counts as this pool's, in place of the measured one."""
    teams: Annotated[tuple[Team, ...], Field(min_length=1, strict=False), Distinct("team")]


class PlatformSettings(_Table):
    """The bidder's parameters, written out; the ranges are those of the platform document."""

    minimum_affordable_minutes: int
    move_gap_ppm: Ppm
    move_share_ppm: Ppm
    retention_gap_ppm: Ppm
    unplaceable_after_cycles: Count
    max_balance_hours: int

    def document(self) -> PlatformDocument:
        """Return the document that is sent to the market."""
        return PlatformDocument(**self.model_dump())


class Scenario(_Table):
    """A whole scenario; ``directory`` is where its trace lies."""

    name: Id
    title: Text
    facts: Facts
    trace: TraceWindow
    clock: Clock
    log: Log
    supply: Supply
    money: Money
    platform: PlatformSettings
    jobs: Jobs
    pools: Annotated[tuple[Pool, ...], Field(min_length=1, strict=False), Distinct("pool")]
    directory: Annotated[Path, Field(exclude=True)] = Path()

    def faults(self) -> tuple[str, ...]:
        """Return the faults that only show when tables are seen together, each with its path."""
        return tuple(self._share_faults()) + tuple(self._name_faults())

    def _share_faults(self) -> Iterable[str]:
        shares: list[tuple[str, Iterable[int]]] = [
            ("$.supply.types", (t.share_ppm for t in self.supply.types)),
            ("$.jobs.accepts", (a.share_ppm for a in self.jobs.accepts)),
            ("$.jobs.minimum_runs", (m.share_ppm for m in self.jobs.minimum_runs)),
            ("$.jobs.drainability", (d.share_ppm for d in self.jobs.drainability)),
        ]
        for index, pool in enumerate(self.pools):
            shares.append((f"$.pools[{index}].teams", (t.job_share_ppm for t in pool.teams)))
        for path, values in shares:
            total = sum(values)
            if total != PPM:
                yield f"{path}: the shares are {total} ppm together, must be {PPM}"

    def _name_faults(self) -> Iterable[str]:
        types = [t.type for t in self.supply.types]
        for index, accepted in enumerate(self.jobs.accepts):
            for name in accepted.types:
                if name not in types:
                    yield f"$.jobs.accepts[{index}].types: {name} has no supply"
        owner: dict[str, str] = {}
        for index, pool in enumerate(self.pools):
            for team in pool.teams:
                if team.team in owner:
                    yield f"$.pools[{index}].teams: {team.team} is a team of {owner[team.team]} too"
                owner[team.team] = pool.pool
            if not sum(team.income_local_per_hour for team in pool.teams):
                yield f"$.pools[{index}].teams: the pool has a weight but no income to share it by"
        try:
            self.platform.document()
        except ValidationError as error:
            yield from (_fault(("platform", *f["loc"]), f["msg"]) for f in error.errors())

    def located(self, directory: Path) -> Self:
        """Return the scenario with the directory of its trace."""
        return self.model_copy(update={"directory": directory})


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises
    ------
    ScenarioError
        The file cannot be read, is not TOML, or has faults; all of them are in the error.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(path, [f"cannot be read: {error}"]) from error
    if "directory" in document:
        raise ScenarioError(path, ["$.directory: is not a key of a scenario"])
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(path, [_fault(f["loc"], f["msg"]) for f in error.errors()]) from error
    if faults := scenario.faults():
        raise ScenarioError(path, faults)
    return scenario.located(path.parent)


def _fault(location: tuple[str | int, ...], message: str) -> str:
    return f"{json_path(location)}: {message}"
