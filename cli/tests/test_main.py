"""The `walras` command as it is installed: every command of the table can be called."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from walras.__main__ import COMMANDS, build_parser, command_names


def walras(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd
    )


def parsers(named: str | None = None) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    for action in build_parser(named)._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("there are no commands")


def test_every_command_of_the_table_has_a_parser_that_says_what_runs_it() -> None:
    found = parsers()
    assert list(found) == command_names()
    assert len(found) == len(COMMANDS) == 25
    for name, parser in found.items():
        assert callable(parser.get_default("run")), name


@pytest.mark.parametrize("name", command_names())
def test_every_command_explains_itself(name: str) -> None:
    done = walras(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: walras {name} ")


@pytest.mark.parametrize("name", command_names())
def test_a_named_command_is_parsed_as_among_all_of_them(name: str) -> None:
    alone = parsers(name)
    assert list(alone) == [name]
    assert alone[name].format_help() == parsers()[name].format_help()


def test_help_names_all_commands_and_an_unknown_one_is_refused() -> None:
    done = walras("--help")
    assert done.returncode == 0
    for name in command_names():
        assert f"\n    {name} " in done.stdout
    refused = walras("fly")
    assert refused.returncode == 2
    assert "invalid choice: 'fly'" in refused.stderr


def test_a_command_runs_when_it_is_named() -> None:
    done = walras("quota", "nobody", "--no-file", "--json")
    assert (done.returncode, done.stderr) == (4, "")
    assert '"reason": "nothing_known"' in done.stdout
