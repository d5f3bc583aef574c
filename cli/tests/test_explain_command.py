"""`walras explain` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from walras_clearing.explain import explain
from walras_clearing.instance import parse_instance

INSTANCE = b"""{"shared_supply_macc": 1000, "pools": [{"pool": "p", "own_supply_macc": 0}],
 "teams": [{"team": "a", "pool": "p", "bid_micro_per_hour": 1000000,
            "jobs": [{"job": "all", "size_macc": 2000, "limit_micro": null}]},
           {"team": "b", "pool": "p", "bid_micro_per_hour": 1000000,
            "jobs": [{"job": "some", "size_macc": 500, "limit_micro": 300},
                     {"job": "all", "size_macc": 1, "limit_micro": 0}]}]}"""
UNIT = "µcr per accelerator-hour"


def walras(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walras", *args]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


@pytest.fixture
def instance(tmp_path: Path) -> str:
    file = tmp_path / "instance.json"
    file.write_bytes(INSTANCE)
    return str(file)


def test_a_job_is_explained_in_words(instance: str) -> None:
    done = walras("explain", instance, "--job", "some")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        "some of team b in pool p: out",
        "quota: 0 of 500 macc, behind 0 macc of the queue; the team has 0",
        f"price: pool 999,001, reference 999,001 {UNIT}; limit and bid reach up to 300",
        "short of price: its limit of 300 lies 998,701 µcr too low",
        "least limit to run: 1,996,008 (now 300), which makes the pool price 1,996,008",
        "least bid to run: no value in range does (now 1,000,000)",
    ]


def test_the_json_answer_is_the_explanation_of_the_library() -> None:
    done = walras("explain", "-", "--job", "some", "--json", stdin=INSTANCE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == explain(parse_instance(INSTANCE), "b", "some").to_json() + "\n"


def test_a_job_id_of_several_teams_needs_the_team(instance: str) -> None:
    done = walras("explain", instance, "--job", "all")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"$.teams: ")
    assert b'"a" and "b"' in done.stderr
    assert b"--team" in done.stderr
    named = walras("explain", instance, "--job", "all", "--team", "b", "--json")
    assert named.returncode == 0
    assert json.loads(named.stdout)["team"] == "b"


def test_the_margin_policy_is_an_option() -> None:
    tied = INSTANCE.replace(b"null", b"300").replace(b'"size_macc": 500', b'"size_macc": 2000')
    bought = []
    for margin in ("pro_rata", "strict_order"):
        args = ("explain", "-", "--job", "some", "--json", "--margin", margin)
        bought.append(json.loads(walras(*args, stdin=tied).stdout)["bought_macc"])
    assert bought == [500, 0]


@pytest.mark.parametrize(
    ("args", "stdin", "start", "reason"),
    [
        (("--job", "none"), INSTANCE, b"$.teams: ", b"no team has a job"),
        (("--job", "some", "--team", "a"), INSTANCE, b"$.teams[0].jobs: ", b"has no job"),
        (("--job", "some", "--team", "c\xe9"), INSTANCE, b"$.teams: ", b"no team has the id"),
        (("--job", "some"), INSTANCE[:-2], b"instance $: is not JSON", b"line 6"),
        (("--job", "some"), INSTANCE.replace(b"300", b"1.5"), b"instance $.teams[1].", b"float"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_nothing_on_stdout(
    args: tuple[str, ...], stdin: bytes, start: bytes, reason: bytes
) -> None:
    done = walras("explain", "-", *args, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(start)
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.isascii()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    done = walras("explain", str(tmp_path / "none.json"), "--job", "some")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"instance ")
    assert b"none.json: No such file" in done.stderr


def test_help_explains_words_and_exit_codes() -> None:
    done = walras("explain", "--help")
    assert done.returncode == 0
    for word in (b"exit codes", b"price ", b"budget ", b"supply ", b"reserve "):
        assert word in done.stdout
