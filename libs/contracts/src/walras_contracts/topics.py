"""The topic registry: ``schemas/topics.toml`` as checked values."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX = "walras."
SUFFIX = ".v1"
_FILE = "schemas/topics.toml"


class Topic(BaseModel):
    """One topic of the pipeline.

    ``name`` is the short name; :attr:`full_name` is what the broker knows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=r"^[a-z]+([._][a-z]+)*$")]
    events: Annotated[tuple[str, ...], Field(strict=False)]
    record_key: str
    partition_key: str
    partitions: Annotated[int, Field(ge=1, le=1024)]
    cleanup: Literal["delete", "compact"]
    retention_ms: Annotated[int, Field(ge=-1)]
    min_compaction_lag_ms: Annotated[int, Field(ge=0)]
    delete_retention_ms: Annotated[int, Field(ge=0)]
    barriers: Literal["outside", "producer", "none"]
    producer: str
    consumers: Annotated[tuple[str, ...], Field(strict=False)]

    @property
    def full_name(self) -> str:
        """Name on the broker."""
        return f"{PREFIX}{self.name}{SUFFIX}"

    def broker_config(self) -> dict[str, str]:
        """Topic-level settings for the broker."""
        config = {"cleanup.policy": self.cleanup, "retention.ms": str(self.retention_ms)}
        if self.cleanup == "compact":
            config["min.compaction.lag.ms"] = str(self.min_compaction_lag_ms)
            config["delete.retention.ms"] = str(self.delete_retention_ms)
        return config


def parse_topics(text: str, partitions: int | None = None) -> dict[str, Topic]:
    """Read the registry's text; topics by short name, in the order of the file.

    ``partitions`` takes the place of the count in ``[defaults]``.

    Raises
    ------
    ValueError
        The text is not TOML, a table or field is missing, unknown or out of range, or a name or
        an event type occurs twice; the message names the topic and the field.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{_FILE}: not TOML: {error}") from error
    if unknown := sorted(document.keys() - {"defaults", "topic"}):
        raise ValueError(f"{_FILE}: unknown tables {unknown}")
    defaults, entries = document.get("defaults", {}), document.get("topic", [])
    if not (isinstance(defaults, dict) and isinstance(entries, list) and entries):
        raise ValueError(f"{_FILE}: needs [[topic]] tables, and [defaults] as a table")
    if partitions is not None:
        defaults = {**defaults, "partitions": partitions}
    topics: dict[str, Topic] = {}
    topic_of: dict[str, str] = {}
    for number, entry in enumerate(entries, start=1):
        topic = _parse_topic(number, defaults, entry)
        if topic.name in topics:
            raise ValueError(f"{_FILE}: topic {topic.name!r} occurs twice")
        for event in topic.events:
            if event in topic_of:
                raise ValueError(
                    f"{_FILE}: {event!r} is on {topic_of[event]!r} and on {topic.name!r}"
                )
            topic_of[event] = topic.name
        topics[topic.name] = topic
    return topics


def _parse_topic(number: int, defaults: dict[str, Any], entry: object) -> Topic:
    if not isinstance(entry, dict):
        raise ValueError(f"{_FILE}: [[topic]] number {number} is not a table")
    try:
        return Topic.model_validate({**defaults, **entry})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in fault["loc"])
        name = entry.get("name", f"number {number}")
        raise ValueError(f"{_FILE}: topic {name!r}: {field}: {fault['msg']}") from error


@cache
def load_topics(partitions: int | None = None) -> dict[str, Topic]:
    """Return the registry that ships with this build.

    Parameters
    ----------
    partitions
        Partition count of the topics for which the file names none, instead of the file's default.
        It is fixed when a log is made: every process of a log must be given the same.
    """
    text = files("walras_contracts").joinpath("topics.toml").read_text("utf-8")
    return parse_topics(text, partitions)
