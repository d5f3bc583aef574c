"""Money, prices and quantities are integers: no float comes near them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.tree import Tree, each_module, expect_none, repository, select

EXACT = (
    r"libs/contracts/src/.*\.py$",
    r"libs/clearing/src/.*\.(py|pyx|pxd)$",
    r"services/(billing|invoicing|clearing|placement|drain|capacity|intake|node_agent)/src/.*\.py$",
)
ALLOWED = {
    "libs/clearing/src/walras_clearing/_guess.pxd": "where a search looks next; every price is "
    "decided by integers afterwards (design §4: a float may only guess)",
    "libs/contracts/src/walras_contracts/generate.py": "joins paths with /",
    "libs/contracts/src/walras_contracts/dataflow.py": "words a retention in days for people",
    "libs/contracts/src/walras_contracts/examples.py": "draws with given probabilities",
    "libs/contracts/src/walras_contracts/edge.py": "names the type to refuse it",
}
FLOAT_NAMES = frozenset({"float", "double", "float32", "float64", "Decimal"})
FLOAT_MODULES = ("decimal", "statistics")
"""Not `fractions`: a Fraction is a pair of integers and exact."""


def floats(tree: Tree) -> list[str]:
    files = {p: t for p, t in select(tree, *EXACT).items() if p not in ALLOWED}
    modules = {p: t for p, t in files.items() if p.endswith(".py")}
    faults = each_module(modules, _python_floats)
    for path, text in sorted(files.items()):
        if path.endswith((".pyx", ".pxd")):
            faults.extend(_cython_floats(path, text))
    return faults


def _python_floats(path: str, module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield f"{path}:{line}: {node.value!r}"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            yield f"{path}:{line}: true division"
        elif isinstance(node, ast.Name) and node.id in FLOAT_NAMES:
            yield f"{path}:{line}: {node.id}"
        elif isinstance(node, ast.ImportFrom) and node.module in FLOAT_MODULES:
            yield f"{path}:{line}: {node.module}"


def _cython_floats(path: str, text: str) -> Iterator[str]:
    """By token, since no parser of Python reads Cython; C blocks in strings are strings."""
    part = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start = re.match(r"cdef class (\w+)|(?:def|cdef|cpdef)\b[^=:(]*?(\w+)\s*\(", token.line)
        if start is not None:
            part = start[1] or start[2]
        number = token.type == tokenize.NUMBER and re.search(r"\.|[eE]\d", token.string)
        if number and not token.string.lower().startswith("0x"):
            yield f"{path}:{token.start[0]}: {token.string} in {part}"
        elif token.type == tokenize.OP and token.string in {"/", "/="}:
            yield f"{path}:{token.start[0]}: true division in {part}"
        elif token.type == tokenize.NAME and token.string in FLOAT_NAMES:
            yield f"{path}:{token.start[0]}: {token.string} in {part}"


def test_no_float_comes_near_money() -> None:
    expect_none(floats(repository()))


def test_every_exception_is_still_needed() -> None:
    assert [path for path in ALLOWED if path not in repository()] == []


def test_the_check_sees_floats() -> None:
    bad = """
from decimal import Decimal
def f(a, b):
    c = a / b
    d = float(a) + 0.5
    return Fraction(c, d)
"""
    faults = floats({"services/billing/src/walras_billing/rating.py": bad})
    assert [fault.partition(":")[2] for fault in faults] == [
        "2: decimal",
        "4: true division",
        "5: 0.5",
        "5: float",
    ]
    kernel = "cdef int f(int a):\n    cdef double b = 1.5\n    return a / 2\n"
    assert [f.partition(":")[2] for f in floats({"libs/clearing/src/x/k.pyx": kernel})] == [
        "2: double in f",
        "2: 1.5 in f",
        "3: true division in f",
    ]
