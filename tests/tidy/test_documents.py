"""What the documents name exists: files, links, commands."""

import re
from pathlib import PurePosixPath

from tests.tidy.tree import Tree, expect_none, repository

CODE = re.compile(r"`[^`\n]+`|^```.*?^```", re.MULTILINE | re.DOTALL)
MAKE = re.compile(r"(?<![\w-])make +([a-z][a-z-]*)")
WALRAS = re.compile(r"(?:^|[`;&|] ?|run (?:--no-sync )?)walras +([a-z]+)", re.MULTILINE)
COMMAND_PAGES = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "tests/README.md")
PATH = re.compile(r"`((?:libs|services|deploy|cli|schemas|scenarios|tests|docs|\.ci)/[\w./<>*-]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TEN_STEPS = 10


def missing_files(tree: Tree) -> list[str]:
    """Paths in backquotes that no file or folder has; `<name>` and `*` stand for anything."""
    faults = []
    folders = {parent.as_posix() for path in tree for parent in PurePosixPath(path).parents}
    for page, text in sorted(tree.items()):
        if not page.endswith(".md") or page.startswith("docs/decisions/"):
            continue
        for name in PATH.findall(text):
            if re.search(r"[<>*…]", name):
                continue
            places = (name.rstrip("/"), (PurePosixPath(page).parent / name).as_posix())
            if not _is_data(name) and not any(p in tree or p in folders for p in places):
                faults.append(f"{page}: {name} does not exist")
    return faults


def _is_data(name: str) -> bool:
    return name.endswith(".csv.gz")


def broken_links(tree: Tree) -> list[str]:
    faults = []
    folders = {parent.as_posix() for path in tree for parent in PurePosixPath(path).parents}
    for page, text in sorted(tree.items()):
        if not page.endswith(".md"):
            continue
        for target in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            place = _resolved(PurePosixPath(page).parent, target)
            if place not in tree and place not in folders and not _is_data(place):
                faults.append(f"{page}: {target} leads nowhere")
    return faults


def _resolved(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = []
    for part in (folder / target).parts:
        if part == "..":
            if parts:
                parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def make_targets(makefile: str) -> dict[str, str]:
    """Targets and their one line of help, empty where there is none."""
    rules = re.findall(r"^([a-z][a-z-]*):(?!=)(.*)$", makefile, re.MULTILINE)
    return {name: rest.partition("## ")[2].strip() for name, rest in rules}


def unlisted_pages(tree: Tree) -> list[str]:
    """Decisions and runbooks that the index does not lead to."""
    index = tree.get("docs/README.md", "")
    pages = [p for p in sorted(tree) if re.match(r"docs/(decisions|runbooks)/.*\.md$", p)]
    return [
        f"{page}: not in docs/README.md"
        for page in pages
        if f"({page.removeprefix('docs/')})" not in index
    ]


def unknown_commands(tree: Tree) -> list[str]:
    """`make …` and `walras …` commands in code that do not exist."""
    targets = make_targets(tree["Makefile"])
    main = tree.get("cli/src/walras/__main__.py", "")
    commands = set(re.findall(r'"add_(\w+)_parser"', main))
    faults = []
    for page in COMMAND_PAGES:
        code = "\n".join(CODE.findall(tree.get(page, "")))
        for name in MAKE.findall(code):
            if name not in targets:
                faults.append(f"{page}: make {name} is no target")
        for name in re.findall(
            r"(?:^|[`;&|] ?|run (?:--no-sync )?)walras +([a-z]+)", code, re.MULTILINE
        ):
            if name not in commands:
                faults.append(f"{page}: walras {name} is no command")
    return faults


def targets_without_help(makefile: str) -> list[str]:
    return [f"make {name}: no ## help" for name, text in make_targets(makefile).items() if not text]


def steps_of(architecture: str) -> list[str]:
    """The numbered steps of the life of an event."""
    life = architecture.partition("## The life of one")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. .*?(?=^\d+\. |\Z)", life, re.MULTILINE | re.DOTALL)


def test_files_that_documents_name_exist() -> None:
    expect_none(missing_files(repository()))


def test_links_of_documents_lead_somewhere() -> None:
    expect_none(broken_links(repository()))


def test_commands_that_documents_name_exist() -> None:
    expect_none(unknown_commands(repository()))


def test_every_decision_and_runbook_is_in_the_index() -> None:
    expect_none(unlisted_pages(repository()))


def test_every_target_has_its_line_of_help() -> None:
    expect_none(targets_without_help(repository()["Makefile"]))


def test_the_architecture_follows_an_event_in_ten_steps_that_name_files() -> None:
    steps = steps_of(repository()["ARCHITECTURE.md"])
    assert len(steps) == TEN_STEPS
    expect_none([step.splitlines()[0] for step in steps if not PATH.search(step)])


def test_the_checks_see_what_does_not_exist() -> None:
    tree = {
        "README.md": "`make nothing`, `walras fly`, `libs/none.py`, [a](docs/b.md), `libs/<x>/y`",
        "Makefile": "fly: ## soars\nwalk:\n\techo\nX := 1\n",
        "cli/src/walras/__main__.py": '("walras.clear_command", "add_clear_parser")',
    }
    assert missing_files(tree) == ["README.md: libs/none.py does not exist"]
    assert broken_links(tree) == ["README.md: docs/b.md leads nowhere"]
    assert unknown_commands(tree) == [
        "README.md: make nothing is no target",
        "README.md: walras fly is no command",
    ]
    assert unlisted_pages({"docs/runbooks/a.md": ""}) == [
        "docs/runbooks/a.md: not in docs/README.md"
    ]
    assert targets_without_help(tree["Makefile"]) == ["make walk: no ## help"]
