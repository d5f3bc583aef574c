"""What decides is pure: no waiting, no clock, no randomness, no I/O, no order of sets."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.tidy.tree import (
    Tree,
    each_module,
    expect_none,
    imported_modules,
    is_below,
    repository,
    select,
)

ADAPTERS = {
    "__main__.py": "starts the process",
    "settings.py": "is read from the environment by the runtime",
    "wiring.py": "chooses the adapters",
    "web.py": "serves the views over HTTP",
    "publisher.py": "keeps Redis as the projection has it",
}
"""Modules of a service that may do I/O, and why; all others are pure."""
ADAPTER_FOLDERS = {
    "services/node_agent/src/walras_node_agent/host/": "starts, watches and ends processes",
    "services/notifier/src/walras_notifier/adapters/": "posts, mails, waits, reads secrets",
}
"""Folders of such modules."""

IMPURE = (
    *("asyncio", "concurrent", "multiprocessing", "queue", "selectors", "threading", "subprocess"),
    *("http", "io", "os", "pathlib", "shutil", "signal", "socket", "ssl", "sys", "tempfile"),
    *("urllib", "datetime", "random", "secrets", "time", "uuid", "logging"),
    *("aiohttp", "aiokafka", "faust", "mode", "opentelemetry", "prometheus_client", "redis"),
    *("structlog", "walras_runtime.clock", "walras_runtime.faust", "walras_runtime.health"),
    *("walras_runtime.logs", "walras_runtime.redis", "walras_runtime.service"),
    *("walras_runtime.kafka", "walras_runtime.telemetry", "walras_launcher"),
)
PURE_PARTS = ("walras_runtime.kafka.wire", "walras_runtime.redis.versioned")
"""Modules of the adapters that only turn bytes into values."""
IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "id", "hash"})
CLIENTS = ("aiokafka", "faust", "redis")


def impure_modules(tree: Tree) -> list[str]:
    """Faults of all modules of services that are not adapters."""
    pure = {
        path: text
        for path, text in select(tree, r"services/[^/]+/src/.*\.py$").items()
        if PurePosixPath(path).name not in ADAPTERS and not path.startswith(tuple(ADAPTER_FOLDERS))
    }
    return each_module(pure, _impurities)


def _impurities(path: str, module: ast.Module) -> Iterator[str]:
    for line, name in imported_modules(module):
        if is_below(name, IMPURE) and not is_below(name, PURE_PARTS):
            yield f"{path}:{line}: imports {name}"
    for node in ast.walk(module):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{path}:{node.lineno}: waits"
        elif isinstance(node, ast.Call) and _called(node) in IMPURE_CALLS:
            yield f"{path}:{node.lineno}: calls {_called(node)}()"
        iterated = node.iter if isinstance(node, ast.For | ast.comprehension) else None
        if iterated is not None and _is_set(iterated):
            yield f"{path}:{iterated.lineno}: iterates over a set; sort it"


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_set(node: ast.expr) -> bool:
    """Whether an expression is a set by its form: its order is not that of the log."""
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor
    ):
        return _is_set(node.left) or _is_set(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"set", "frozenset"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"union", "intersection", "difference", "symmetric_difference"}
    return isinstance(node, ast.Set | ast.SetComp)


def clients_outside_wiring(tree: Tree) -> list[str]:
    """Services reach brokers and stores through the runtime; wiring alone may name a client."""

    def check(path: str, module: ast.Module) -> Iterator[str]:
        if PurePosixPath(path).name != "wiring.py":
            for line, name in imported_modules(module):
                if name in CLIENTS:
                    yield f"{path}:{line}: imports {name}"

    return each_module(select(tree, r"services/[^/]+/src/.*\.py$"), check)


def test_what_decides_is_pure() -> None:
    expect_none(impure_modules(repository()))


def test_clients_are_named_in_wiring_alone() -> None:
    expect_none(clients_outside_wiring(repository()))


def test_the_check_sees_impurities() -> None:
    bad = """
import time
from walras_runtime.kafka.producing import Row
from walras_runtime.kafka.wire import BarrierMark
async def f(): ...
def g(a, b):
    print(a)
    for x in {1, 2}: pass
    for x in sorted({1, 2}): pass
    return [y for y in set(a) - b]
"""
    faults = impure_modules({"services/x/src/walras_x/core.py": bad})
    found = [fault.partition(":")[2] for fault in faults]
    assert sorted(found, key=lambda fault: int(fault.partition(":")[0])) == [
        "2: imports time",
        "3: imports walras_runtime.kafka.producing",
        "3: imports walras_runtime.kafka.producing.Row",
        "5: waits",
        "7: calls print()",
        "8: iterates over a set; sort it",
        "10: iterates over a set; sort it",
    ]
    assert impure_modules({"services/x/src/walras_x/wiring.py": bad}) == []


def test_the_check_sees_clients() -> None:
    tree = {"services/x/src/walras_x/web.py": "import aiokafka\n"}
    assert clients_outside_wiring(tree) == ["services/x/src/walras_x/web.py:1: imports aiokafka"]
