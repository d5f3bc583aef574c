"""A job as a TOML file: each field with its unit, turned into the event exactly.

The verdict on the event is that of :mod:`walras_contracts.edge`, which intake runs, too.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

from walras.billing_log.window import market_time_ms
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.units import duration_ms, macc_of, micro_of
from walras.submit.contract_paths import file_path, in_units
from walras.submit.key_lines import KeyPath, key_lines, line_of
from walras_contracts.demand import JobSubmitted
from walras_contracts.edge import decode_edge
from walras_contracts.rejections import Rejection

FILE_BYTES_MAX: Final = 256 * 1024
NO_LIMIT: Final = "none"


class Number(str):
    """A number with a fraction, as it is written: a float would change it."""

    __slots__ = ()


class FieldError(Exception):
    """A field is not what it must be."""

    code = "bad_field"
    retriable = False

    def __init__(self, path: KeyPath, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file as it was read; ``name`` is shown."""

    name: str
    text: str
    document: Mapping[str, Any]

    def event(self, submitted_ms: int) -> JobSubmitted:
        """Return the job, submitted at a market time.

        Raises
        ------
        JobsLogError
            A field is missing, unknown, of another kind or out of its range; the text names file,
            line and field.
        """
        try:
            payload = _payload(self.document)
            deadline_ms = payload.get("deadline_ms")
            if deadline_ms is not None and deadline_ms <= submitted_ms:
                raise FieldError(("deadline",), "it is over: the market's time is later")
            return _judged({**payload, "submitted_ms": submitted_ms}, self.document)
        except FieldError as error:
            number = line_of(key_lines(self.text), error.path)
            place = f"{self.name}: line {number}" if number is not None else self.name
            field = ".".join(error.path)
            where = f"{place}: {field}" if field else place
            raise JobsLogError(
                Fault.BAD_FIELD, f"{where}: {error.reason}", "docs/jobs.md lists the fields"
            ) from error


def read_job_file(name: str, data: bytes) -> JobFile:
    """Read a file.

    Raises
    ------
    JobsLogError
        It is no TOML; the text names the line.
    """
    if len(data) > FILE_BYTES_MAX:
        raise _no_toml(name, f"{len(data)} bytes; at most {FILE_BYTES_MAX}")
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        document = tomllib.loads(text, parse_float=Number)
    except UnicodeDecodeError as error:
        raise _no_toml(name, f"byte {error.start} is not valid UTF-8") from error
    except RecursionError as error:
        raise _no_toml(name, "nested too deeply") from error
    except ValueError as error:
        # Beside what the parser says: an integer of more digits than Python converts.
        raise _no_toml(name, str(error)) from error
    return JobFile(name, text, document)


def _payload(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the event; what is left out takes its default there."""
    found = _fields(document, _FIELDS, ())
    if "run" in document:
        if not isinstance(document["run"], dict):
            raise FieldError(("run",), "must be a table, [run]")
        found["run"] = _fields(document["run"], _RUN_FIELDS, ("run",))
    return found


def _fields(
    document: Mapping[str, Any], fields: "Mapping[str, tuple[str, Read]]", above: KeyPath
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name not in fields:
            if name == "run" and not above:
                continue
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise FieldError((*above, name), f"the field is not known{hint}")
        target, read = fields[name]
        try:
            found[target] = read(value)
        except ValueError as error:
            raise FieldError((*above, name), str(error)) from error
    return found


def _judged(payload: Mapping[str, Any], document: Mapping[str, Any]) -> JobSubmitted:
    """Return the event where intake would take it."""
    data = json.dumps(payload).encode()
    accepted = frozenset({JobSubmitted.TYPE})
    outcome = decode_edge(JobSubmitted.TYPE, "-", "-", data, accepted)
    if isinstance(outcome, Rejection):
        path = file_path(outcome.path, document)
        raise FieldError(path, in_units(outcome.path, outcome.reason))
    assert isinstance(outcome, JobSubmitted)
    return outcome


Read = Callable[[Any], Any]


def _as_is(value: Any) -> Any:
    """Leave it to the contract; what JSON cannot carry cannot be right."""
    if isinstance(value, Number):
        raise ValueError("a number with a fraction does not belong here")
    if isinstance(value, datetime | date | time):
        raise ValueError("a date or time does not belong here; write a text in quotes")
    if isinstance(value, list):
        return [_as_is(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_is(each) for name, each in value.items()}
    return value


def _decimal(value: Any) -> str:
    """Return a number as it is written, in quotes or not."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError("a number is needed")


def _accelerators(value: Any) -> int:
    return macc_of(_decimal(value))


def _limit(value: Any) -> int | None:
    return None if value == NO_LIMIT else micro_of(_decimal(value))


def _duration(value: Any) -> int:
    if isinstance(value, str) and not isinstance(value, Number):
        return duration_ms(value)
    raise ValueError("a time with its unit is needed, in quotes, such as '90s' or '1h 30min'")


def _moment(value: Any) -> int:
    is_text = isinstance(value, str) and not isinstance(value, Number) and not value.isdigit()
    if isinstance(value, date) or is_text:
        text = value.isoformat() if isinstance(value, date) else value
        try:
            return market_time_ms(text)
        except OverflowError as error:
            raise ValueError(f"{text!r} is not from 1970 to 2100") from error
    raise ValueError("a date and time is needed, such as 2026-01-31T12:00:00Z")


def _environment(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of texts, [run.environment]")
    return [{"name": name, "value": _as_is(each)} for name, each in value.items()]


_FIELDS: Final[Mapping[str, tuple[str, Read]]] = {
    "team": ("team", _as_is),
    "job": ("job", _as_is),
    "types": ("types", _as_is),
    "accelerators": ("size_macc", _accelerators),
    "gang": ("gang", _as_is),
    "limit": ("limit_micro", _limit),
    "expected_run": ("expected_run_ms", _duration),
    "minimum_run": ("minimum_run_ms", _duration),
    "drainability": ("drainability", _as_is),
    "deadline": ("deadline_ms", _moment),
}
_RUN_FIELDS: Final[Mapping[str, tuple[str, Read]]] = {
    "command": ("command", _as_is),
    "environment": ("environment", _environment),
    "directory": ("directory", _as_is),
    "warning": ("warning", _as_is),
    "warning_url": ("warning_url", _as_is),
    "checkpoint": ("checkpoint_ms", _duration),
    "stop": ("stop_ms", _duration),
    "launcher_stop": ("launcher_stop_ms", _duration),
}


def _no_toml(name: str, reason: str) -> JobsLogError:
    return JobsLogError(Fault.BAD_FILE, f"{name}: {reason}", "a job is a TOML file (docs/jobs.md)")
