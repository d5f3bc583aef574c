"""Paths and rules of the event, in the words of the job file."""

import re
from collections.abc import Mapping
from typing import Any, Final

from walras.submit.key_lines import KeyPath

FILE_NAMES: Final[Mapping[str, str]] = {
    "size_macc": "accelerators",
    "limit_micro": "limit",
    "expected_run_ms": "expected_run",
    "minimum_run_ms": "minimum_run",
    "deadline_ms": "deadline",
    "checkpoint_ms": "checkpoint",
    "stop_ms": "stop",
    "launcher_stop_ms": "launcher_stop",
}
"""Fields that the file calls otherwise."""
_UNITS: Final = {
    "_macc": "thousandths of an accelerator",
    "_micro": "micro-credits",
    "_ms": "milliseconds",
}
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]")
_NUMBER = re.compile(r"[0-9]+$")


def file_path(contract_path: str, document: Mapping[str, Any]) -> KeyPath:
    """Return the keys of the file for a JSON path of the event; empty: the whole of it.

    Parameters
    ----------
    contract_path
        Such as ``$.run.environment[2].value``.
    document
        The file as it was parsed, for the names of variables.
    """
    path: list[str] = []
    for name, index in _STEP.findall(contract_path):
        if index:
            if path[-1:] == ["environment"]:
                path.append(_variable(document, int(index)))
                break
            path[-1] += f"[{index}]"
        else:
            path.append(FILE_NAMES.get(name, name))
    return tuple(path)


def in_units(contract_path: str, reason: str) -> str:
    """Return a rule with the unit of its number, where the file has other units."""
    if not _NUMBER.search(reason):
        return reason
    for suffix, unit in _UNITS.items():
        if contract_path.endswith(suffix):
            return f"{reason} {unit}"
    return reason


def _variable(document: Mapping[str, Any], index: int) -> str:
    run = document.get("run")
    environment = run.get("environment") if isinstance(run, dict) else None
    names = list(environment) if isinstance(environment, dict) else []
    return str(names[index]) if index < len(names) else f"[{index}]"
