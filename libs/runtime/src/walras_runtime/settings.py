"""Settings of a service: frozen, unknown keys refused, all faults reported together.

A field is read from ``WALRAS_<SERVICE>_<FIELD>``; the shared fields of :class:`ServiceSettings`
fall back to ``WALRAS_<FIELD>``. Any other variable that begins with ``WALRAS_`` is refused, unless
it is another service's or a tool's: a misspelt one must not leave a default in force unnoticed.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from walras_contracts.topics import load_topics
from walras_runtime.errors import WalrasError

PREFIX = "WALRAS_"
TOOL_VARIABLES: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CACHE_DIR", "REQUIRE", "WAIVE", "SEED", "HYPOTHESIS_PROFILE"),
        *("CLEARING_BUILD", "QUOTA_FILE"),
    )
)
"""What others than services read, of the same environment."""


class SettingsError(WalrasError):
    """The settings are not usable; the message names every fault."""

    code = "invalid_settings"


class ServiceSettings(BaseSettings):
    """What every service needs to know."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    SERVICE: ClassVar[str] = "service"

    kafka_bootstrap: str
    """Address of the broker, host:port."""
    redis_url: str | None = None
    """Address of Redis; only the snapshot needs it."""
    mode: Literal["live", "replay"] = "live"
    """Live: late inputs are not waited for beyond alignment_timeout_ms. Replay: always waited."""
    partitions: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Partitions of the spread topics of this log, where it was not made with the registry's."""
    replica_index: Annotated[int, Field(ge=0)] = 0
    """Which share of the partitions a spread service takes."""
    replica_count: Annotated[int, Field(ge=1)] = 1
    """Among how many replicas the partitions are shared."""
    interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] | None = None
    """Market time between two barriers, of which market times are multiples; every process of a log
    needs the same; null: 5000 when live, 60000 in a replay."""
    cycle_every: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Barriers per cycle; every process of a log needs the same; null: 6 when live, 1 in a
    replay."""
    alignment_timeout_ms: Annotated[int, Field(ge=1)] = 10_000
    """How long a live step waits for a partition that stays behind."""
    transaction_timeout_ms: Annotated[int, Field(ge=1000, le=60_000)] = 15_000
    """After this the broker aborts a transaction whose writer is gone and frees its readers."""
    election_session_ms: Annotated[int, Field(ge=1000, le=60_000)] = 6_000
    """After this silence a standby takes over from a leader."""
    health_port: Annotated[int, Field(ge=-1, le=65_535)] = -1
    """Port of /healthz, /readyz and /metrics on loopback; 0: any free one; -1: none."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    otlp_endpoint: str | None = None
    """Where traces go (OTLP over HTTP); null: nowhere."""
    trace_ratio_ppm: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """Share of steps that are traced, where their inputs do not decide it."""

    @model_validator(mode="after")
    def _has_a_share(self) -> Self:
        if self.replica_index >= self.replica_count:
            raise ValueError(
                f"{PREFIX}REPLICA_INDEX: {self.replica_index} is not below "
                f"{PREFIX}REPLICA_COUNT, which is {self.replica_count}"
            )
        return self

    def barrier_interval_ms(self) -> int:
        """Return the market time between two barriers in force."""
        if self.interval_ms is not None:
            return self.interval_ms
        return 5_000 if self.mode == "live" else 60_000

    def barriers_per_cycle(self) -> int:
        """Return the barriers per cycle in force."""
        if self.cycle_every is not None:
            return self.cycle_every
        return 6 if self.mode == "live" else 1

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read explicit arguments first, then the environment by the rule of this module."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, _Environment(settings_cls)

    @classmethod
    def variables(cls) -> dict[str, tuple[str, ...]]:
        """Return for each field the environment variables that set it, first wins."""
        own = f"{PREFIX}{cls.SERVICE.upper()}_"
        shared = set(ServiceSettings.model_fields)
        return {
            name: (own + name.upper(), *([PREFIX + name.upper()] if name in shared else []))
            for name in cls.model_fields
        }

    @classmethod
    def read(cls, **values: Any) -> Self:
        """Read the settings.

        Raises
        ------
        SettingsError
            Naming every missing, unknown or wrong value and the variable that sets it.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            variables = cls.variables()
            lines = []
            for fault in error.errors():
                if not fault["loc"]:
                    # A rule between fields: it names their variables itself.
                    lines.append(str(fault["ctx"]["error"]))
                    continue
                name = str(fault["loc"][0])
                own = f"{PREFIX}{cls.SERVICE.upper()}_{name.upper()}"
                names = variables.get(name, (name if name.startswith(PREFIX) else own,))
                # The one that was read; the shared one where none is set.
                variable = next((v for v in names if v in os.environ), names[-1])
                # The input of a missing field is all that was given: not for the log.
                was = "" if fault["type"] == "missing" else f" (was {fault.get('input')!r})"
                lines.append(f"{variable}: {fault['msg']}{was}")
            raise SettingsError("\n".join(lines)) from error

    @classmethod
    def describe(cls) -> str:
        """Return one line per setting: variables, default, meaning."""
        lines = []
        for name, names in cls.variables().items():
            field = cls.model_fields[name]
            default = "required" if field.is_required() else repr(field.default)
            lines.append(f"  {names[-1]} ({default})\n      {field.description or ''}")
        return "\n".join(lines)


def _of_another(variable: str) -> bool:
    """Whether a variable is a tool's or another service's; the registry names the services."""
    if variable in TOOL_VARIABLES:
        return True
    named = {name for t in load_topics().values() for name in (t.producer, *t.consumers)}
    return any(variable.startswith(f"{PREFIX}{name.upper()}_") for name in named)


class _Environment(InitSettingsSource):
    """The environment, by the naming rule of this module; unknown names are passed on."""

    def __init__(
        self, settings_cls: type[BaseSettings], environment: Mapping[str, str] | None = None
    ) -> None:
        assert issubclass(settings_cls, ServiceSettings)
        source = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        own = f"{PREFIX}{settings_cls.SERVICE.upper()}_"
        known: set[str] = set()
        for name, variables in settings_cls.variables().items():
            known.update(variables)
            for variable in variables:
                if variable in source:
                    values.setdefault(name, source[variable])
        for variable in sorted(source):
            if variable in known or variable in TOOL_VARIABLES:
                continue
            if variable.startswith(own):
                values[variable[len(own) :].lower()] = source[variable]
            elif variable.startswith(PREFIX) and not _of_another(variable):
                values[variable] = source[variable]
        super().__init__(settings_cls, values)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the values are read at once."""
        del field
        return None, field_name, False
