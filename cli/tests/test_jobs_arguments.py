"""The commands about jobs and nodes refuse with a code, what is wrong and what to do."""

import json
from pathlib import Path

import pytest

from walras.__main__ import build_parser
from walras.drain.node_statement import Goal
from walras.drain_command import goal_of
from walras.jobs_log.errors import Fault, JobsLogError

NAMES = ("jobs", "nodes", "submit", "limit", "cancel", "drain")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"


def run(*words: str) -> int:
    arguments = build_parser(words[0]).parse_args(words)
    code = arguments.run(arguments)
    assert isinstance(code, int)
    return code


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)


REFUSALS = [
    (["jobs"], "no_broker", "no broker is named"),
    (["nodes"], "no_broker", "no broker is named"),
    (["limit", "t/j", "1"], "no_broker", "no broker is named"),
    (["cancel", "t/j"], "no_broker", "no broker is named"),
    (["drain", "t/j"], "no_broker", "no broker is named"),
    (["drain", "n"], "no_broker", "no broker is named"),
    (["jobs", "--bootstrap", "localhost:kafka"], "bad_address", "is no address"),
    (["jobs", "--bootstrap", "127.0.0.1:1"], "broker_unavailable", "does not answer"),
    (["jobs", "--job", "j"], "bad_argument", "--job needs its team"),
    (["jobs", "t/j", "--job", "j"], "bad_argument", "named twice"),
    (["jobs", "~"], "bad_argument", "'~' is no name of a team"),
    (["jobs", "t/j/k"], "bad_argument", "'j/k' is no name of a job"),
    (["nodes", "a b"], "bad_argument", "'a b' is no name of a node"),
    (["limit", "t", "1"], "bad_argument", "'t' names no job"),
    (["limit", "/j", "1"], "bad_argument", "'' is no name of a team"),
    (["limit", "t/j", "cheap"], "bad_argument", "PRICE 'cheap'"),
    (["cancel", "t/"], "bad_argument", "'' is no name of a job"),
    (["drain", "t/j", "--urgent"], "bad_argument", "--urgent is for nodes"),
    (["drain", "t/j", "--off"], "bad_argument", "--off is for nodes"),
    (["drain", "t/j", "--fence"], "bad_argument", "--fence is for nodes"),
    (["drain", "t/j", "--within", "1h"], "bad_argument", "--within is for nodes"),
    (["drain", "n", "--reason", "x"], "bad_argument", "--reason is for jobs"),
    (["drain", "n", "--key", "x"], "bad_argument", "--key is for jobs"),
    (["drain", "n", "--force"], "bad_argument", "--force goes with --off"),
    (["drain", "n", "--cancel", "--off"], "bad_argument", "--cancel takes a drain back"),
    (["drain", "n", "--on", "--within", "1h"], "bad_argument", "--within is of a drain"),
    (["drain", "n", "--within", "5"], "bad_argument", "--within '5' is no time"),
    (["drain", "n", "--within", "4000d"], "bad_argument", "longer than ten years"),
    (["drain", "t/j", "--reason", "x" * 501], "bad_argument", "501 characters"),
    (["drain", "t/j", "--key", ""], "bad_argument", "0 characters"),
    (["submit", "no-such-file"], "bad_file", "no-such-file: No such file"),
]


@pytest.mark.parametrize(("words", "code", "reason"), REFUSALS)
def test_what_cannot_be_asked_is_refused_in_one_line_with_a_code(
    words: list[str], code: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"walras {words[0]}: ")
    assert told.err.endswith(f" [{code}]\n")
    assert told.err.count("\n") == 1
    assert reason in told.err
    assert run(*words, "--json") == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["retriable"]) == (code, code == "broker_unavailable")
    assert reason in error["reason"]


@pytest.mark.parametrize(
    ("flags", "goal"),
    [
        ([], Goal.DRAIN),
        (["--urgent"], Goal.DRAIN),
        (["--off"], Goal.OFF),
        (["--on"], Goal.ON),
        (["--cancel"], Goal.ON),
        (["--fence"], Goal.KEEP),
        (["--fence", "--urgent"], Goal.DRAIN),
        (["--fence", "--within", "1h"], Goal.DRAIN),
        (["--fence", "--on"], Goal.ON),
    ],
)
def test_the_flags_of_a_node_say_what_is_asked_of_it(flags: list[str], goal: Goal) -> None:
    assert goal_of(build_parser("drain").parse_args(["drain", "n", *flags])) is goal


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_json_and_documents_its_exit_codes(name: str) -> None:
    parser = build_parser(name)
    for action in parser._actions:
        if action.choices is not None and name in action.choices:
            text = dict(action.choices)[name].format_help()
            assert "--json" in text
            assert "exit codes:" in text
            return
    raise AssertionError(name)


def test_every_code_is_documented_and_says_whether_to_try_again() -> None:
    text = DOCUMENT.read_text("utf-8")
    for fault in Fault:
        error = JobsLogError(fault, "reason", "todo")
        row = f"| `{fault.value}` | {'yes' if error.retriable else 'no'} |"
        assert row in text, row
        assert error.line() == f"reason; todo [{fault.value}]"
