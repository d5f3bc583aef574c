"""The examples in the documentation run as written."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["README.md", "docs/algorithm.md"])
def test_the_examples_give_what_they_say(page: str) -> None:
    outcome = doctest.testfile(str(ROOT / page), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0
