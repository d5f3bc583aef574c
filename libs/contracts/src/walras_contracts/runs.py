"""What a node agent starts for a job, and how the job wants to be told that it must leave."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from walras_contracts.event import Part
from walras_contracts.quantities import DurationMs
from walras_contracts.sequences import Distinct

ARGUMENT_PATTERN = r"^[^\x00]{0,4096}$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
LOOPBACK_PATTERN = r"^http://(127\.0\.0\.1|localhost):[0-9]{1,5}/[!-~]{0,400}$"

Argument = Annotated[str, StringConstraints(strict=True, pattern=ARGUMENT_PATTERN)]
"""One word of a command line, or a value of the environment."""
VariableName = Annotated[str, StringConstraints(strict=True, pattern=VARIABLE_PATTERN)]
LoopbackUrl = Annotated[str, StringConstraints(strict=True, pattern=LOOPBACK_PATTERN)]


class WarningKind(StrEnum):
    """How a job is told that it must leave; the warning file is always written, too."""

    SIGNAL = "signal"
    """SIGUSR1 to the process that was started, not to its group."""
    FILE = "file"
    HTTP = "http"
    """A POST to the job's own loopback address."""


class EnvironmentVariable(Part):
    """A variable of the environment of a job."""

    name: VariableName
    value: Argument


class RunSpec(Part):
    """A command with its environment, and the links of its grace chain.

    The time from the warning to SIGTERM must hold ``checkpoint_ms``, the time from SIGTERM to
    SIGKILL ``stop_ms``; a launcher that kills its workers earlier is the shortest link.
    """

    command: Annotated[tuple[Argument, ...], Field(min_length=1, max_length=200, strict=False)]
    environment: Annotated[
        tuple[EnvironmentVariable, ...], Field(max_length=200, strict=False), Distinct("name")
    ] = ()
    directory: Argument = ""
    """Where it starts; empty: in its checkpoint directory."""
    warning: Annotated[WarningKind, Field(strict=False)] = WarningKind.SIGNAL
    warning_url: LoopbackUrl | None = None
    checkpoint_ms: DurationMs = 30_000
    """How long saving its state takes at the most."""
    stop_ms: DurationMs = 10_000
    """How long it takes to end after SIGTERM at the most."""
    launcher_stop_ms: DurationMs | None = None
    """After how long its launcher kills the workers (torchrun: 30 s); null: it has none."""

    @model_validator(mode="after")
    def _http_names_its_address(self) -> Self:
        if (self.warning is WarningKind.HTTP) != (self.warning_url is not None):
            raise ValueError("warning_url goes with warning http, and with no other")
        return self
