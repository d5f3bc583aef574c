"""`walras simulate` as a user runs it: it answers, and writes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

INSTANCE = b"""{"shared_supply_macc": 1000, "pools": [{"pool": "p", "own_supply_macc": 0}],
 "teams": [{"team": "a", "pool": "p", "bid_micro_per_hour": 1000000,
            "jobs": [{"job": "all", "size_macc": 2000, "limit_micro": null}]},
           {"team": "b=c", "pool": "p", "bid_micro_per_hour": 0,
            "jobs": [{"job": "all", "size_macc": 250, "limit_micro": 9000000}]}]}"""
JOB = {"team": "b=c", "job": "new", "size_macc": 500, "limit_micro": None}
UNIT = "µcr per accelerator-hour"
PRICES = "999,001 -> 1,996,008 (+997,007)"
SOLD = "1,000 (unchanged)"


def walras(
    *args: str, stdin: bytes = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walras", "simulate", *args]
    return subprocess.run(
        command, input=stdin, capture_output=True, check=False, timeout=60, cwd=cwd
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "instance.json").write_bytes(INSTANCE)
    (tmp_path / "job.json").write_text(json.dumps(JOB), encoding="utf-8")
    return tmp_path


def test_an_added_job_and_a_bid_are_answered_in_words(folder: Path) -> None:
    args = ("instance.json", "--add", "job.json", "--set-bid", "b=c=1000000")
    done = walras(*args, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")
    words = done.stdout.decode()
    assert words.splitlines() == [
        f"reference price: {PRICES} {UNIT}",
        f"pool p: price {PRICES} µcr, purchased {SOLD} macc, allocated {SOLD} macc",
        "0 pools unchanged",
        "team a: quota 1,000 -> 500 (-500) macc",
        "team b=c: quota 0 -> 500 (+500) macc",
        "0 teams unchanged",
        "added new of team b=c in pool p: partly in",
        "  quota: 250 of 500 macc, behind 250 macc of the queue; the team has 500",
        f"  price: pool 1,996,008, reference 1,996,008 {UNIT}; limit and bid reach up to 1,333,333",
        "  short of budget: the bid ends 250 macc early; at this price 497,006 µcr/h are missing",
        "  least limit to run: no value in range does (now none)",
        "  least bid to run: 2,988,048 (now 1,000,000), which makes the pool price 3,984,064",
    ]


def test_nothing_is_written_and_nothing_but_the_answer_is_said(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert walras("instance.json", "--add", "job.json", "--json", cwd=folder).returncode == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_json_answer_names_what_differs(folder: Path) -> None:
    args = ("instance.json", "--add", "-", "--set-bid", "b=c=1000000", "--json")
    done = walras(*args, cwd=folder, stdin=json.dumps({**JOB, "queue_position": 0}).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert document["reference_price_micro"] == {"before": 999_001, "after": 1_996_008}
    assert document["teams"]["b=c"]["after"] == {"allocated_macc": 500, "opportunistic_macc": 0}
    assert [job["state"] for job in document["added"]] == ["in"]


def test_a_removed_job_needs_its_team_where_several_have_one_of_its_id(folder: Path) -> None:
    done = walras("instance.json", "--remove", "all", cwd=folder)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"--remove: $.teams: ")
    assert done.stderr.endswith(b"(--team)\n")
    named = walras("instance.json", "--remove", "all", "--team", "a", "--json", cwd=folder)
    assert named.returncode == 0
    assert json.loads(named.stdout)["reference_price_micro"]["after"] == 0


def test_what_does_not_change_is_said_to_be_unchanged(folder: Path) -> None:
    done = walras("instance.json", "--set-bid", "a=1000000", cwd=folder)
    assert done.stdout.decode().splitlines() == [
        "reference price: 999,001 (unchanged) µcr per accelerator-hour",
        "1 pool unchanged",
        "2 teams unchanged",
    ]


@pytest.mark.parametrize(
    ("args", "start", "reason"),
    [
        ((), b"nothing to simulate", b"--add"),
        (("--add", "none.json"), b"job none.json: ", b"No such file"),
        (("--add", "instance.json"), b"job instance.json $", b"unknown field"),
        (("--set-bid", "a"), b"--set-bid: ", b"TEAM=INTEGER"),
        (("--set-bid", "a=-1"), b"--set-bid: ", b"TEAM=INTEGER"),
        (("--set-bid", "z=1"), b"with the changes $.teams: ", b"no team has the id"),
        (("--set-bid", "a=9999999999999999"), b"with the changes $.teams[0].bid", b"exceed"),
        (("--set-bid", "a=1", "--team", "a"), b"--team: ", b"there is no --remove"),
        (("--remove", "all", "--team", ""), b"with the changes $.teams: ", b'the id ""'),
        (("--remove", "z"), b"--remove: $.teams: ", b"no team has a job"),
        (("--add", "job.json", "--add", "job.json"), b"with the changes $.teams[1]", b"already"),
        (("--add", "-", "--add", "-"), b"only one", b"standard input"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_nothing_on_stdout(
    folder: Path, args: tuple[str, ...], start: bytes, reason: bytes
) -> None:
    done = walras("instance.json", *args, cwd=folder)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(start)
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_many_changes_are_cut_for_people_and_whole_in_json(folder: Path) -> None:
    document = json.loads(INSTANCE)
    for number in range(30):
        team = {"team": f"t{number}", "pool": "p", "bid_micro_per_hour": 1000 * number + 1000}
        document["teams"].append({**team, "jobs": [{**JOB, "job": "j"}]})
        del document["teams"][-1]["jobs"][0]["team"]
    (folder / "many.json").write_text(json.dumps(document), encoding="utf-8")
    args = ("many.json", "--set-bid", "a=500")
    lines = walras(*args, cwd=folder).stdout.decode().splitlines()
    assert sum(line.startswith("team ") for line in lines) == 20
    assert lines[-1] == "11 more teams change (--json has all); 1 team unchanged"
    assert len(json.loads(walras(*args, "--json", cwd=folder).stdout)["teams"]) == 31


def test_help_explains_forms_and_exit_codes() -> None:
    done = walras("--help")
    assert done.returncode == 0
    assert b"exit codes" in done.stdout
    assert b"queue_position" in done.stdout
