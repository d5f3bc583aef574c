"""`walras demo`: what it refuses, and that a run begins with nothing of an older one."""

import asyncio
import signal
from pathlib import Path
from typing import NoReturn

import pytest

import walras.demo_command
from cli.tests.walras_process import walras as command
from walras.__main__ import main
from walras.demo.fresh import LogNotEmptyError, expect_no_topics, remove_results
from walras.demo.policies import Policies
from walras.demo.run import DemoOptions, run_demo
from walras.demo_command import SCENARIO, default_scenario, summary
from walras.report import build_report
from walras.report.testing import CONTEXT, tiny_log
from walras_contracts.accounts import Rounding
from walras_contracts.topics import load_topics
from walras_launcher import LauncherError
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.topics_admin import create_topics


def older_run(out: Path) -> None:
    (out / "logs").mkdir(parents=True)
    for name in ("report.json", "report.html", "notes.txt"):
        (out / name).write_text("older")
    for name in ("clearing-1.log", "zygote.log"):
        (out / "logs" / name).write_text("older\n")


def names(out: Path) -> list[str]:
    return sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())


def test_the_default_scenario_is_that_of_the_checkout_wherever_one_stands(tmp_path: Path) -> None:
    assert default_scenario().is_absolute()
    assert default_scenario().is_file()
    assert default_scenario(tmp_path) == SCENARIO


def test_a_scenario_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    done = command(tmp_path, "demo", "--scenario", "none.toml")
    assert done.returncode == 2
    assert (
        done.stderr == "walras demo: there is no file none.toml; name a scenario with --scenario\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rounding", "upwards"), "invalid choice: 'upwards'"),
        (("--retention-gap-ppm", "-1"), "must lie in 0 … 1000000000, is '-1'"),
        (("--retention-gap-ppm", "1000000001"), "must lie in 0 … 1000000000"),
        (("--retention-gap-ppm", "1e5"), "must lie in 0 … 1000000000, is '1e5'"),
    ],
)
def test_policies_that_are_none_are_refused(
    words: tuple[str, str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["demo", *words])
    assert refused.value.code == 2
    assert why in capsys.readouterr().err


def test_the_policies_of_the_command_line_are_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[DemoOptions] = []

    def refuse(options: DemoOptions, _: object) -> NoReturn:
        asked.append(options)
        raise LogNotEmptyError("stop here")

    monkeypatch.setattr(walras.demo_command, "run_demo", refuse)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    policies = ("--rounding", "reserve", "--retention-gap-ppm", "0")
    for words in (policies, ()):
        with pytest.raises(SystemExit):
            main(["demo", "--out", str(tmp_path), *words])
    assert [options.policies for options in asked] == [Policies(Rounding.RESERVE, 0), Policies()]


def test_the_summary_tells_placement_and_drains() -> None:
    report = build_report(CONTEXT, tiny_log())
    lines = summary({**report, "run": {"replay_seconds": 3}})
    assert lines[2] == (
        "placement: 4 starts, 2 preemptions, 290 accelerator-seconds of theirs repeated, 16.7 % of "
        "the bought quota unspent, longest wait of a gang with quota 1 min"
    )
    assert lines[3] == (
        "drains: 4 begun, 2 freed in p50 10 s, p99 10 s of 5 s, 3 held up by the guardrail"
    )


def test_what_an_older_run_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    older_run(tmp_path)
    remove_results(tmp_path)
    assert names(tmp_path) == ["notes.txt"]
    remove_results(tmp_path / "never")


def test_a_run_that_breaks_leaves_no_older_report(tmp_path: Path) -> None:
    older_run(tmp_path)

    def no_broker() -> NoReturn:
        raise LauncherError("no_broker", "None.", "Get one.")

    options = DemoOptions(default_scenario(), tmp_path, hours=1, board=False, broker=no_broker)
    with pytest.raises(LauncherError):
        run_demo(options, print)
    assert names(tmp_path) == ["logs/zygote.log", "notes.txt"]
    assert "older" not in (tmp_path / "logs" / "zygote.log").read_text()


@pytest.mark.broker
def test_a_broker_that_holds_an_older_run_is_refused(own_broker: OwnBroker, tmp_path: Path) -> None:
    bootstrap = own_broker().bootstrap
    topics = load_topics(1)
    asyncio.run(expect_no_topics(bootstrap, topics))
    asyncio.run(create_topics(bootstrap, {"quotas": topics["quotas"]}))
    with pytest.raises(LogNotEmptyError, match=r"holds walras\.quotas\.v1 already"):
        asyncio.run(expect_no_topics(bootstrap, topics))
    done = command(
        tmp_path,
        "demo",
        *("--hours", "1", "--no-board", "--out", str(tmp_path)),
        WALRAS_KAFKA_BOOTSTRAP=bootstrap,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"walras demo: the broker {bootstrap} holds")
    assert "Traceback" not in done.stderr
    assert names(tmp_path) == ["logs/zygote.log"]
