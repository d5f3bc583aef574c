import argparse
import io
import json

import pytest

from walras.doctor_command import add_doctor_parser, run_doctor
from walras_launcher.doctor import Finding, State

FOUND = Finding("java", State.FOUND, True, "Java 17 [x]")
OPTIONAL = Finding("docker_engine", State.MISSING, False, "There is no docker.", "Install it.")
LACKING = Finding("broker", State.MISSING, True, "There is no broker.", "Install Java 17.")


def _run(findings: list[Finding], *words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    add_doctor_parser(parser.add_subparsers())
    args = parser.parse_args(["doctor", *words])
    assert args.run is run_doctor
    out = io.StringIO()
    return args.run(args, inspect=lambda: findings, out=out), out.getvalue()


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["table", "json"])
def test_the_exit_code_is_zero_when_only_optional_things_are_missing(words: list[str]) -> None:
    code, _ = _run([FOUND, OPTIONAL], *words)
    assert code == 0


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["table", "json"])
@pytest.mark.parametrize("state", [State.MISSING, State.UNUSABLE])
def test_the_exit_code_is_one_when_something_needed_is_not_found(
    state: State, words: list[str]
) -> None:
    code, text = _run([FOUND, Finding("broker", state, True, "No broker.", "Get one.")], *words)
    assert code == 1
    assert "Get one." in text


def test_the_table_names_every_finding_and_the_remedy_of_what_is_needed() -> None:
    _, text = _run([FOUND, OPTIONAL, LACKING])
    for finding in (FOUND, OPTIONAL, LACKING):
        assert finding.code in text
    assert "Java 17 [x]" in text
    assert "Install Java 17." in text
    assert "Install it." not in text
    assert "`make demo` cannot run yet." in text


def test_the_json_carries_all_fields_of_all_findings() -> None:
    _, text = _run([FOUND, OPTIONAL, LACKING], "--json")
    document = json.loads(text)
    assert document["ready"] is False
    assert [item["code"] for item in document["findings"]] == ["java", "docker_engine", "broker"]
    assert document["findings"][2] == {
        "code": "broker",
        "state": "missing",
        "needed": True,
        "detail": "There is no broker.",
        "remedy": "Install Java 17.",
    }


def test_the_real_machine_is_inspected_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_doctor(argparse.Namespace(json=True))
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if document["ready"] else 1)
    assert {"python", "java", "maven", "docker_engine", "broker", "redis", "uv"} <= {
        item["code"] for item in document["findings"]
    }
