"""Puts report.json and report.html into a folder."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from walras.report.page import page

JSON_NAME = "report.json"
HTML_NAME = "report.html"
_NUMBERS = re.compile(r"\[\s+(?:-?\d+|null)(?:,\s+(?:-?\d+|null))*\s+\]")
_SPACE = re.compile(r"\s+")


def write_report(directory: Path, report: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write both files, each in one go, and return their paths; the folder is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    body = _NUMBERS.sub(_one_line, json.dumps(report, indent=1, ensure_ascii=False)) + "\n"
    return (
        _replace(directory / JSON_NAME, body),
        _replace(directory / HTML_NAME, page(report)),
    )


def _one_line(numbers: re.Match[str]) -> str:
    return _SPACE.sub("", numbers.group())


def _replace(path: Path, text: str) -> Path:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, "utf-8")
    return partial.replace(path)
