"""In which line of a TOML text a key stands; the parser of the standard library does not say."""

import re
import tomllib
from typing import Final

KeyPath = tuple[str, ...]

_NAME: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_ASSIGNMENT = re.compile(rf"\s*({_KEY})\s*=")
_TABLE = re.compile(rf"\s*\[\s*({_KEY})\s*\]")
_PART = re.compile(_NAME)
_ITEM = re.compile(r"\[[0-9]+\]$")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the lines, from 1, of the keys and tables of a text that is TOML.

    Keys inside of inline tables have no line of their own: :func:`line_of` gives that of the table.
    """
    lines = text.split("\n")
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(lines, start=1):
        header = _TABLE.match(line)
        match = header or _ASSIGNMENT.match(line)
        if match is None or not _begins(lines, number - 1):
            continue
        path = tuple(part.strip("\"'") for part in _PART.findall(match[1]))
        if header is not None:
            table = path
        found.setdefault(path if header is not None else table + path, number)
    return found


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the nearest thing around it; None: there is none.

    A step may name an item of an array, such as ``types[1]``: it stands where its array does.
    """
    keys = tuple(_ITEM.sub("", part) for part in path)
    for length in range(len(keys), 0, -1):
        number = lines.get(keys[:length])
        if number is not None:
            return number
    return None


def _begins(lines: list[str], before: int) -> bool:
    """Whether a statement may begin behind so many lines: what looks like one may be text."""
    try:
        tomllib.loads("\n".join(lines[:before]))
    except ValueError:
        return False
    return True
