"""A pytest plugin: from its start to the end of the tests, note the lines of `.pyx` that run.

`line_coverage` loads it with ``-p`` and says where the tracer is, and where the lines shall be
written.
"""

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

import pytest

TRACER_OPTION: Final = "--line-tracer"
LINES_OPTION: Final = "--lines-seen"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the compiled tracer, and the file for the lines."""
    parser.addoption(TRACER_OPTION, required=True, help="the compiled line_tracer.c")
    parser.addoption(LINES_OPTION, required=True, help="file to write the lines to")


def pytest_configure(config: pytest.Config) -> None:
    """Start tracing before any test module is imported."""
    _tracer(config).tracing_starts()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Start again where a test, or a library that it uses, has set a tracer of its own."""
    _tracer(item.config).tracing_starts()
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the lines seen, by file name."""
    seen: dict[str, list[int]] = {}
    for file, line in _tracer(config).lines_seen():
        seen.setdefault(PurePath(file).name, []).append(line)
    text = json.dumps({name: sorted(set(found)) for name, found in sorted(seen.items())})
    Path(config.getoption(LINES_OPTION)).write_text(text, "utf-8")


def _tracer(config: pytest.Config) -> ctypes.PyDLL:
    library = ctypes.PyDLL(config.getoption(TRACER_OPTION))
    library.tracing_starts.restype = None
    library.lines_seen.restype = ctypes.py_object
    return library
