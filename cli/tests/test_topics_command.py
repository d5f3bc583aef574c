"""`walras topics` on bad input: one line on standard error, and a code."""

import subprocess
import sys

import pytest

from walras_contracts.topics import load_topics


def topics(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", "topics", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["check", "--bootstrap", "127.0.0.1:1"], 1, "the broker 127.0.0.1:1 does not answer"),
        (["create", "--bootstrap", "127.0.0.1:1"], 1, "the broker 127.0.0.1:1 does not answer"),
        (["check", "--bootstrap", "here:there"], 2, "--bootstrap here:there: "),
        (["list", "--partitions", "0"], 2, "--partitions 0: "),
        (["list", "--partitions", "2000"], 2, "--partitions 2000: "),
    ],
)
def test_what_cannot_be_done_is_one_line_on_stderr(words: list[str], code: int, said: str) -> None:
    done = topics(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"walras topics: {said}")
    assert done.stderr.count("\n") == 1


def test_the_list_names_every_topic_with_the_partitions_asked_for() -> None:
    done = topics("list", "--partitions", "7")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows == [[t.full_name, str(t.partitions)] for t in load_topics(7).values()]
