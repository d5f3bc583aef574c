"""The runtime moves records; it does not know what they are about."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.tree import Tree, each_module, expect_none, repository, select
from walras_contracts.topics import load_topics

DOMAIN_WORDS = frozenset(
    {"accelerator", "auction", "bid", "bidder", "bids", "budget", "charge", "demand", "device"}
    | {"gang", "gpu", "invoice", "job", "jobs", "lease", "leases", "ledger", "price", "prices"}
    | {"quota", "quotas", "supply", "tariff", "team", "teams", "tenant", "vacate", "wallet"}
)
"""Not `market`: the time that events carry is called market time."""
RUNTIME_TOPICS = frozenset({"claims", "dead_letter", "ticks"})
"""The topics of the runtime itself: claims, dead letters, the barriers' own."""
DOMAIN_MODULES = ("accounts", "capacity", "demand", "market", "money", "work")


def domain_words(tree: Tree) -> list[str]:
    topics = frozenset(load_topics()) - RUNTIME_TOPICS

    def check(path: str, module: ast.Module) -> Iterator[str]:
        for node in ast.walk(module):
            line = getattr(node, "lineno", 0)
            for name in _names(node):
                words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
                for word in sorted(DOMAIN_WORDS.intersection(words)):
                    yield f"{path}:{line}: {name} ({word})"
            if isinstance(node, ast.Constant) and node.value in topics:
                yield f"{path}:{line}: names the topic {node.value!r}"
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                package, _, part = node.module.partition(".")
                if package == "walras_contracts" and part in DOMAIN_MODULES:
                    yield f"{path}:{line}: imports {node.module}"

    return each_module(select(tree, r"libs/runtime/src/.*\.py$"), check)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name


def test_the_runtime_knows_no_domain_word() -> None:
    expect_none(domain_words(repository()))


def test_the_check_sees_domain_words() -> None:
    bad = """
from walras_contracts.market import X
class QuotaStore:
    def put(self, job_id):
        self.last_price = "prices"
"""
    faults = domain_words({"libs/runtime/src/walras_runtime/x.py": bad})
    assert sorted(fault.partition(":")[2] for fault in faults) == [
        "2: imports walras_contracts.market",
        "3: QuotaStore (quota)",
        "4: job_id (job)",
        "5: last_price (price)",
        "5: names the topic 'prices'",
    ]
