"""The files of the repository as text, for checks that take a tree and return what is wrong.

Every check is a function of a `Tree`, so that its canary can hand it a tree that is wrong.
"""

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

Tree = Mapping[str, str]
"""Path relative to the repository → text."""

NOT_OURS: Final = frozenset(
    {".git", ".venv", ".tools", ".cache", "out", "build", "dist", "__pycache__", "node_modules"}
    | {".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache"}
)
TEXT_SUFFIXES: Final = frozenset(
    {".py", ".pyi", ".pyx", ".pxd", ".md", ".toml", ".json", ".yml", ".yaml", ".lua", ".xml"}
    | {".in", ".txt", ".cfg", ".html", ".css", ".js", ".sh", ".Dockerfile", ".dockerignore"}
)
TEXT_NAMES: Final = frozenset(
    {"Makefile", "run", "LICENSE", "NOTICE", ".importlinter", ".gitignore", "uv.lock"}
)


@cache
def repository() -> Tree:
    """Return the text files of the checkout; what tools and runs leave is not among them."""
    files: dict[str, str] = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in NOT_OURS and not f.endswith(".egg-info"))
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in TEXT_SUFFIXES or name in TEXT_NAMES:
                files[path.relative_to(ROOT).as_posix()] = path.read_text("utf-8")
    return files


def select(tree: Tree, *patterns: str) -> dict[str, str]:
    """Return the files whose path matches one of the regular expressions from its start."""
    return {p: t for p, t in tree.items() if any(re.match(pattern, p) for pattern in patterns)}


def python_files(tree: Tree) -> dict[str, str]:
    """Return the Python modules."""
    return {path: text for path, text in tree.items() if path.endswith(".py")}


def is_test(path: str) -> bool:
    """Whether a file belongs to tests."""
    return "tests" in PurePosixPath(path).parts


def imported_modules(module: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, full name) of every import; `from a import b` yields `a` and `a.b`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def is_below(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name is one of the packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def each_module(
    files: Mapping[str, str], check: Callable[[str, ast.Module], Iterator[str]]
) -> list[str]:
    """Return the faults that `check` finds in each Python file, in order of the paths."""
    faults: list[str] = []
    for path, text in sorted(files.items()):
        faults.extend(check(path, parsed(text)))
    return faults


@cache
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module; every check of a run shares it."""
    return ast.parse(text)


def expect_none(faults: list[str]) -> None:
    """Fail with every fault on a line of its own."""
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)
