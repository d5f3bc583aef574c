"""Tests of tests: no mocks, no fixed sleeps, names that say what holds."""

import ast
from collections.abc import Iterator

from tests.tidy.tree import (
    Tree,
    each_module,
    expect_none,
    imported_modules,
    is_below,
    is_test,
    python_files,
    repository,
)

MOCKS = ("unittest.mock", "mock", "pytest_mock")
LONGEST_SLEEP_S = 0.2
"""A pause of a polling loop; a longer one waits for time instead of for what it needs."""
SLEEPS_ALLOWED: dict[str, str] = {}
"""Files that may, and why."""
SHORTEST_NAME_WORDS = 3


def mocks(tree: Tree) -> list[str]:
    def check(path: str, module: ast.Module) -> Iterator[str]:
        for line, name in imported_modules(module):
            if is_below(name, MOCKS):
                yield f"{path}:{line}: {name}; use the memory adapters"

    return sorted(set(each_module(python_files(tree), check)))


def fixed_sleeps(tree: Tree) -> list[str]:
    def check(path: str, module: ast.Module) -> Iterator[str]:
        for node in ast.walk(module):
            if not (isinstance(node, ast.Call) and _name(node.func).endswith("sleep")):
                continue
            argument = node.args[0] if node.args else None
            seconds = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(seconds, int | float) and seconds > LONGEST_SLEEP_S:
                yield f"{path}:{node.lineno}: sleeps {seconds} s; poll with a deadline"

    files = python_files(tree)
    return each_module(
        {p: t for p, t in files.items() if is_test(p) and p not in SLEEPS_ALLOWED}, check
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def terse_names(tree: Tree) -> list[str]:
    """Tests whose name is not a sentence."""

    def check(path: str, module: ast.Module) -> Iterator[str]:
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                words = node.name.removeprefix("test_").split("_")
                if node.name.startswith("test_") and len(words) < SHORTEST_NAME_WORDS:
                    yield f"{path}:{node.lineno}: {node.name} does not say what holds"

    return each_module({p: t for p, t in python_files(tree).items() if is_test(p)}, check)


def test_nothing_is_mocked() -> None:
    expect_none(mocks(repository()))


def test_no_test_waits_for_time_to_pass() -> None:
    expect_none(fixed_sleeps(repository()))


def test_names_of_tests_are_sentences() -> None:
    expect_none(terse_names(repository()))


def test_the_checks_see_mocks_sleeps_and_terse_names() -> None:
    bad = """
from unittest.mock import MagicMock
async def test_it():
    await asyncio.sleep(1)
    time.sleep(0.05)
"""
    tree = {"libs/x/tests/test_x.py": bad}
    assert len(mocks(tree)) == 2
    assert fixed_sleeps(tree) == ["libs/x/tests/test_x.py:4: sleeps 1 s; poll with a deadline"]
    assert terse_names(tree) == ["libs/x/tests/test_x.py:3: test_it does not say what holds"]
