"""The repository fits any machine: no paths of one, no registry but in the lock."""

import re

from tests.tidy.tree import Tree, expect_none, repository

# Assembled, so that this file does not name what it looks for.
MACHINE_PATHS = tuple("/" + name for name in ("work", "root", "home", "Users", "tmp"))
REGISTRIES = (
    *("pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org", "crates" + ".io"),
    *("repo1.maven" + ".org", "repo.maven.apache" + ".org", "docker" + ".io", "quay" + ".io"),
    *("ghcr" + ".io", "gcr" + ".io", "arti" + "factory", "nex" + "us"),
)
PATHS_ALLOWED: dict[str, str] = {}
REGISTRIES_ALLOWED = {"uv.lock": "the format names the index that a package came from"}


def machine_paths(tree: Tree) -> list[str]:
    """Absolute paths of a machine; `schemas/work/…` and links below a folder are none."""
    pattern = re.compile(rf"(?<![\w.>)\]}}-])(?:{'|'.join(MACHINE_PATHS)})(?:/|\b(?![\w.-]))")
    return _hits(tree, pattern, PATHS_ALLOWED)


def registries(tree: Tree) -> list[str]:
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRIES))
    return _hits(tree, pattern, REGISTRIES_ALLOWED)


def _hits(tree: Tree, pattern: re.Pattern[str], allowed: dict[str, str]) -> list[str]:
    return [
        f"{path}:{number}: {match[0]}"
        for path, text in sorted(tree.items())
        if path not in allowed
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := pattern.search(line)) is not None
    ]


def test_no_path_of_a_machine_is_written_down() -> None:
    expect_none(machine_paths(repository()))


def test_no_registry_is_named_outside_the_lock() -> None:
    expect_none(registries(repository()))


def test_the_checks_see_paths_and_registries() -> None:
    bad = "\n".join(
        [f'x = "{MACHINE_PATHS[0]}/main"', f"cd {MACHINE_PATHS[1]}", f"a{MACHINE_PATHS[0]}/b"]
    )
    assert machine_paths({"a.py": bad}) == [
        f"a.py:1: {MACHINE_PATHS[0]}/",
        f"a.py:2: {MACHINE_PATHS[1]}",
    ]
    assert registries({"a.md": f"https://{REGISTRIES[0]}/simple"}) == [f"a.md:1: {REGISTRIES[0]}"]
