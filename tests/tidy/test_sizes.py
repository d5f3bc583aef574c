"""Files of at most 500 lines, functions of at most 70; what is larger may only shrink."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.tidy.tree import Tree, expect_none, parsed, repository

FILE_LINES = 500
FUNCTION_LINES = 70
RATCHET = tomllib.loads(Path(__file__).with_name("ratchet.toml").read_text("utf-8"))
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".c", ".lua")
CYTHON_FUNCTION = re.compile(r"^(\s*)(?:def|cdef|cpdef)\b(?! class\b)[^=]*?(\w+)\s*\([^=]*$")


def file_sizes(tree: Tree) -> dict[str, int]:
    """Lines of each source file."""
    return {p: len(t.splitlines()) for p, t in tree.items() if p.endswith(SOURCES)}


def function_sizes(tree: Tree) -> dict[str, int]:
    """Lines of each function, without its docstring, by `path::name`."""
    sizes: dict[str, int] = {}
    for path, text in tree.items():
        found: tuple[tuple[str, int], ...] = ()
        if path.endswith(".py"):
            found = tuple(_python_functions(text))
        elif path.endswith(".pyx"):
            found = tuple(_cython_functions(text))
        for name, size in found:
            key = f"{path}::{name}"
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


def _python_functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            )
            words = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1 - words


def _cython_functions(text: str) -> Iterator[tuple[str, int]]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = CYTHON_FUNCTION.match(line)
        if match is None:
            continue
        indent, end = len(match[1]), number
        for later in range(number + 1, len(lines)):
            body = lines[later]
            if body.strip() and len(body) - len(body.lstrip()) <= indent and body.strip()[0] != ")":
                break
            end = later if body.strip() else end
        yield match[2], end - number + 1


def over(sizes: Mapping[str, int], cap: int, known: Mapping[str, int]) -> list[str]:
    """What is over its cap and not known, has grown, or has shrunk without a note of it."""
    faults = []
    for name, size in sorted(sizes.items()):
        allowed = known.get(name)
        if size > (allowed or cap):
            faults.append(f"{name}: {size} lines, at most {allowed or cap}")
        elif allowed is not None and size < allowed:
            entry = f"lower it to {size}" if size > cap else "remove it"
            faults.append(f"{name}: shrank to {size}; {entry} in ratchet.toml")
    return faults + [
        f"{name}: is gone; remove it from ratchet.toml" for name in known.keys() - sizes.keys()
    ]


def test_files_are_at_most_500_lines_long() -> None:
    expect_none(over(file_sizes(repository()), FILE_LINES, RATCHET["files"]))


def test_functions_are_at_most_70_lines_long() -> None:
    expect_none(over(function_sizes(repository()), FUNCTION_LINES, RATCHET["functions"]))


def test_the_check_sees_long_files_and_functions() -> None:
    long = "def f():\n" + "    x = 1\n" * 500
    kernel = "cdef int g(int a) nogil:\n" + "    a = 1\n" * 70 + "\ncdef int h(int a):\n    pass\n"
    tree = {"a.py": long, "b.pyx": kernel}
    assert over(file_sizes(tree), FILE_LINES, {}) == ["a.py: 501 lines, at most 500"]
    assert over(function_sizes(tree), FUNCTION_LINES, {}) == [
        "a.py::f: 501 lines, at most 70",
        "b.pyx::g: 71 lines, at most 70",
    ]


def test_the_ratchet_only_goes_down() -> None:
    assert over({"a": 600}, 500, {"a": 600}) == []
    assert over({"a": 601}, 500, {"a": 600}) == ["a: 601 lines, at most 600"]
    assert over({"a": 599}, 500, {"a": 600}) == [
        "a: shrank to 599; lower it to 599 in ratchet.toml"
    ]
    assert over({"a": 500}, 500, {"a": 600}) == ["a: shrank to 500; remove it in ratchet.toml"]
    assert over({}, 500, {"a": 600}) == ["a: is gone; remove it from ratchet.toml"]
