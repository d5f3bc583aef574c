"""`make` and `.ci/run` with a uv of the test's own: what is run, in which order, what counts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KERNEL = "libs/clearing/src/walras_clearing/_kernel.cpython-311-here.so"
FAKE_UV = f"""#!/bin/sh
printf '%s\\n' "$*" "profile: $WALRAS_HYPOTHESIS_PROFILE" >> calls
case "$*" in
  sync*) mkdir -p .venv; touch {KERNEL} ;;
  *pytest*"-m not broker"*) exit "${{WITHOUT:-0}}" ;;
  *pytest*"-m broker"*) exit "${{WITH:-0}}" ;;
esac
"""
FAKE_MAKEFILE = """
setup verify: ; @:
test: ; @cp given/*.xml $(JUNIT_DIR)/; printf '%s\\n' '$(PYTEST_ARGS)' > args; $(SAYS)
"""
CASE = '<testcase name="t{n}">{inside}</testcase>'
BROKER = '<properties><property name="walras_leg" value="broker"/></properties>'


def environment(**variables: str) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("WALRAS_", "MAKE", "PYTEST_"))}
    return {n: v for n, v in kept.items() if n not in {"CI", "JUNIT_DIR"}} | variables


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with nothing in it but what the Makefile looks at."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (
        *("pyproject.toml", "uv.lock", "libs/clearing/setup.py", "cli/pyproject.toml"),
        *("libs/clearing/src/walras_clearing/_kernel.pyx", "deploy/launcher/pyproject.toml"),
        *(f"deploy/launcher/src/walras_launcher/{n}.py" for n in ("versions", "preparation")),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "uv").write_text(FAKE_UV)
    (tmp_path / "uv").chmod(0o755)
    return tmp_path


def make(tree: Path, *words: str, **variables: str) -> tuple[int, list[str]]:
    """Run make; return its exit code and what it asked of uv."""
    (tree / "calls").write_text("")
    command = ["make", "-C", str(tree), *words, "UV=./uv", "UV_STAMP="]
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, check=False
    )
    return done.returncode, (tree / "calls").read_text().splitlines()


def phases(calls: list[str]) -> list[str]:
    start = re.compile(r"run --no-sync python -m pytest -n [23] --dist loadfile ")
    return [start.sub("", call) for call in calls if start.match(call)]


def test_the_environment_is_made_once_and_again_when_the_kernel_is_gone(tree: Path) -> None:
    assert "sync --all-packages --locked" in make(tree, "setup")[1]
    assert make(tree, "setup") == (0, [])
    (tree / KERNEL).unlink()
    assert "sync --all-packages --locked" in make(tree, "setup")[1]
    assert make(tree, "setup") == (0, [])
    os.utime(tree / "uv.lock", (2**32, 2**32))
    assert "sync --all-packages --locked" in make(tree, "setup")[1]


@pytest.mark.parametrize(("target", "more"), [("test", " and not slow"), ("test-long", "")])
def test_both_phases_get_the_arguments_and_a_report_of_their_own(
    tree: Path, target: str, more: str
) -> None:
    code, calls = make(tree, target, "JUNIT_DIR=out", "PYTEST_ARGS=-k 'this or that'")
    assert code == 0
    assert phases(calls) == [
        f"-m not broker{more} --junitxml=out/without-broker.xml -k this or that",
        f"-m broker{more} --junitxml=out/with-broker.xml -k this or that",
    ]
    assert phases(make(tree, target)[1]) == [f"-m not broker{more}", f"-m broker{more}"]
    assert ("profile: long" in calls) is (target == "test-long")
    chosen = make(tree, target, WALRAS_HYPOTHESIS_PROFILE="dev")[1]
    assert {call for call in chosen if call.startswith("profile")} == {"profile: dev"}


@pytest.mark.parametrize(
    ("words", "ended", "code", "ran"),
    [
        ([], "10", 2, 1),
        ([], "01", 2, 2),
        ([], "50", 2, 1),
        (["PYTEST_ARGS=-x"], "10", 2, 1),
        (["PYTEST_ARGS=-x"], "50", 0, 2),
        (["PYTEST_ARGS=-x"], "05", 0, 2),
        (["PYTEST_ARGS=-x"], "55", 2, 2),
        (["PYTEST_ARGS=-x"], "51", 2, 2),
    ],
)
def test_a_phase_that_selects_nothing_is_passed_over_only_where_arguments_were_given(
    tree: Path, words: list[str], ended: str, code: int, ran: int
) -> None:
    """``ended`` are the exit codes of pytest in the two phases; make's own are 0 and 2."""
    found, calls = make(tree, "test", *words, WITHOUT=ended[0], WITH=ended[1])
    assert (found, len(phases(calls))) == (code, ran)


def report(folder: Path, phase: str, cases: list[str]) -> None:
    body = "".join(CASE.format(n=n, inside=inside) for n, inside in enumerate(cases))
    (folder / f"{phase}.xml").write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """A checkout whose `make test` writes the reports in `given`."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text(FAKE_MAKEFILE)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "given").mkdir()
    (tmp_path / "out/ci").mkdir(parents=True)
    report(tmp_path / "out/ci", "with-broker", [BROKER] * 500)
    return tmp_path


def run_ci(ci: Path, **variables: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [str(ci / ".ci/run")],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [n for n in done.stdout.splitlines() if "Docker" not in n]


def test_ci_sums_both_reports_and_counts_what_ran_on_a_broker(ci: Path) -> None:
    failed, skipped = BROKER + "<failure/>", BROKER + "<skipped/>"
    report(ci / "given", "without-broker", ["", "", "<skipped/>", BROKER])
    report(ci / "given", "with-broker", [*[BROKER] * 58, failed, skipped])
    closing = "==== 3 passed, 1 skipped in 2.00s ===="
    code, said = run_ci(ci, SAYS=f"echo '{closing}'", PYTEST_ARGS="-k this")
    assert said[-5:] == [
        "ci: without-broker: 3 passed, 1 skipped",
        "ci: with-broker: 1 failure, 58 passed, 1 skipped",
        "ci: in all: 64 tests, 1 failure, 61 passed, 2 skipped",
        "ci: 60 tests ran against a real broker (at least 60 must)",
        closing,
    ]
    assert code == 0
    assert (ci / "args").read_text() == "-k this\n"


def test_ci_does_not_count_what_an_older_run_left(ci: Path) -> None:
    report(ci / "given", "without-broker", [""])
    code, said = run_ci(ci)
    assert said[-2:] == [
        "ci: in all: 1 tests, 1 passed",
        "ci: 0 tests ran against a real broker (at least 60 must)",
    ]
    assert "ci: with-broker: no report, this phase did not run" in said
    assert code == 1


def test_ci_fails_with_its_tests_even_where_they_said_nothing(ci: Path) -> None:
    report(ci / "given", "with-broker", [BROKER] * 60)
    assert run_ci(ci)[0] == 0
    code, said = run_ci(ci, SAYS="exit 3")
    assert code == 2
    assert said[-1] == "ci: 60 tests ran against a real broker (at least 60 must)"
