"""No module has a name under which anything could be put."""

from pathlib import PurePosixPath

from tests.tidy.tree import Tree, expect_none, python_files, repository

BETTER_NAMES = {
    "utils": "the subject",
    "util": "the subject",
    "common": "who shares it",
    "helpers": "what they help to do",
    "helper": "what it helps to do",
    "manager": "what it does",
    "misc": "one module per subject",
    "stuff": "one module per subject",
    "shared": "what is shared",
    "base": "the contract that it states",
}


def vague_names(tree: Tree) -> list[str]:
    faults = []
    for path in sorted(python_files(tree)):
        for part in PurePosixPath(path).with_suffix("").parts:
            words = part.split("_")
            vague = {part, words[0], words[-1]} & BETTER_NAMES.keys()
            faults += [f"{path}: name it after {BETTER_NAMES[word]}" for word in sorted(vague)]
    return faults


def test_no_module_is_called_utils_or_the_like() -> None:
    expect_none(vague_names(repository()))


def test_the_check_sees_vague_names() -> None:
    bad = ["a/utils.py", "a/common/b.py", "a/redis_helpers.py", "a/misc.py", "a/job_manager.py"]
    assert len(vague_names(dict.fromkeys([*bad, "a/commonly.py"], ""))) == len(bad)
