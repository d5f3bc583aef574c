"""The launcher as a process: exit codes, signals, what is left when it ends or is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from libs.job.tests.agent_side import (
    Agent,
    clean_environment,
    eventually,
    is_gone,
    launcher,
    run,
    signal_is,
)

COUNTING = """
import os, signal, sys, time
got = []
signal.signal(signal.SIGTERM, lambda number, frame: got.append("TERM"))
signal.signal(signal.SIGINT, lambda number, frame: got.append("INT"))
signal.signal(signal.SIGUSR1, lambda number, frame: got.append("USR1"))
signal.signal(signal.SIGUSR2, lambda number, frame: got.append("end"))
print(os.getpid(), flush=True)
while "end" not in got:
    time.sleep(0.01)
print(got, flush=True)
"""


def start(*words: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        launcher(*words),
        env=environment or clean_environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -KILL $$", 128 + 9),
        ("kill -TERM $$", 128 + 15),
    ],
)
def test_the_exit_code_is_that_of_the_program(program: str, code: int) -> None:
    assert run(launcher("--", "sh", "-c", program), clean_environment()).returncode == code


def test_arguments_and_streams_are_those_of_the_program() -> None:
    words = [
        "--",
        "sh",
        "-c",
        'read line; echo "$line $1 $2"; echo wrong >&2',
        "sh",
        "--help",
        "--",
    ]
    with start(*words) as process:
        out, error = process.communicate("hello\n")
    assert (process.returncode, out, error) == (0, "hello --help --\n", "wrong\n")


def test_the_program_may_be_named_without_the_dashes() -> None:
    done = run(launcher("--stateless", "echo", "--stateless"), clean_environment())
    assert (done.returncode, done.stdout) == (0, "--stateless\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "nothing to run; put the program after --"),
        (["--"], 2, "nothing to run"),
        (["--stateless", "--checkpoint-file", "x", "--", "true"], 2, "or --stateless"),
        (["--stateless", "--warning-command", "x", "--", "true"], 2, "or --stateless"),
        (
            ["--", "no-such-program-anywhere"],
            127,
            "no-such-program-anywhere cannot be run: No such",
        ),
        (["--", "/"], 126, "/ cannot be run: Permission denied"),
    ],
)
def test_what_cannot_be_run_is_said_with_what_to_do(words: list[str], code: int, said: str) -> None:
    done = run(launcher(*words), clean_environment())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("walras run: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_control_directory_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    environment = {**clean_environment(), "WALRAS_CONTROL_DIR": str(tmp_path / "none")}
    done = run(launcher("--", "echo", "ran"), environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "none is not there: mount it" in done.stderr


def test_help_says_how_it_is_used() -> None:
    done = run(launcher("--help"), clean_environment())
    assert done.returncode == 0
    for word in (
        "-- PROGRAM",
        "--warning-command",
        "--checkpoint-file",
        "--stateless",
        "exit codes",
    ):
        assert word in done.stdout


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_the_program_gets_a_signal_once_whether_the_launcher_or_the_group_got_it(
    agent: Agent, name: str
) -> None:
    number = signal.Signals[f"SIG{name}"]
    words = ["--stateless", "--", sys.executable, "-c", COUNTING]
    with start(*words, environment=agent.environment()) as process:
        program = int(line_of(process))
        whom = [os.kill, os.killpg, os.killpg, os.kill, os.kill, os.killpg]
        for times, send in enumerate(whom):
            send(process.pid, number)
            wait_for_rounds(agent, f"{times}")
        os.kill(program, signal.SIGUSR2)
        out, _ = process.communicate()
    assert out == f"{[name] * len(whom) + ['end']}\n"
    assert process.returncode == 0


def wait_for_rounds(agent: Agent, name: str) -> None:
    """Let the launcher answer twice: between the two it has dealt with every signal of before."""
    for session in (f"{name}-a", f"{name}-b"):
        agent.warn(session)

        def answered(wanted: str = session) -> bool:
            done = agent.done()
            return done is not None and done.session == wanted

        assert eventually(answered)


def test_a_signal_that_comes_when_the_program_has_ended_does_not_change_the_exit_code() -> None:
    """One to the group may end the program before the launcher gets its own."""
    for _ in range(5):
        with start("--", "sh", "-c", "trap '' TERM; echo on; read line; exit 4") as process:
            assert line_of(process) == "on"
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            while process.poll() is None:
                process.terminate()
            process.communicate()
        assert process.returncode == 4


def test_the_agents_signal_is_absorbed_and_the_program_never_sees_it(agent: Agent) -> None:
    with start(
        "--stateless", "--", sys.executable, "-c", COUNTING, environment=agent.environment()
    ) as process:
        program = int(line_of(process))
        agent.warn()
        process.send_signal(signal.SIGUSR1)
        assert eventually(lambda: agent.done() is not None)
        os.kill(program, signal.SIGUSR2)
        out, _ = process.communicate()
    assert (process.returncode, out) == (0, "['end']\n")


def test_a_program_that_ignores_sigterm_is_waited_for(agent: Agent) -> None:
    words = ["--stateless", "--", sys.executable, "-c", COUNTING]
    with start(*words, environment=agent.environment()) as process:
        program = int(line_of(process))
        process.terminate()
        wait_for_rounds(agent, "s")
        assert process.poll() is None
        os.kill(program, signal.SIGKILL)
        process.communicate()
    assert process.returncode == 128 + signal.SIGKILL


def test_a_killed_launcher_takes_its_program_along(tmp_path: Path) -> None:
    mark = tmp_path / "got"
    program = f'trap "echo TERM > {mark}; exit 0" TERM; echo $$; while :; do sleep 0.05; done'
    with start("--", "sh", "-c", program) as process:
        child = int(line_of(process))
        others = group_members(process.pid) - {process.pid}
        process.kill()
        process.wait()
        assert eventually(lambda: mark.exists() and mark.read_text("utf-8") == "TERM\n")
        assert eventually(lambda: all(is_gone(pid) for pid in others | {child}))


def group_members(group: int) -> set[int]:
    members = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in {"Z", "X"}:
            members.add(int(folder.name))
    return members


def test_nothing_of_the_launcher_is_left_when_the_program_has_ended() -> None:
    with start("--", "sh", "-c", "echo $$; read line") as process:
        child = int(line_of(process))
        assert {process.pid, child} < group_members(process.pid)
        process.communicate("\n")
        assert group_members(process.pid) == set()


def test_whoever_reads_the_programs_output_sees_its_end_when_the_program_closes_it() -> None:
    """No other process of the launcher holds on to the pipe but the launcher itself."""
    with start("--", "sh", "-c", "echo $$; read line") as process:
        line_of(process)
        output = Path(f"/proc/{process.pid}/fd/1").readlink()
        holders = {
            pid
            for pid in group_members(process.pid)
            for link in Path(f"/proc/{pid}/fd").iterdir()
            if link.is_symlink() and link.readlink() == output
        }
        assert len(holders) == 2
        process.communicate("\n")


def test_orphans_that_fall_to_the_launcher_are_reaped(tmp_path: Path) -> None:
    """As the first process of a container it inherits them; here it is asked to."""
    program = """
import ctypes, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
from walras_job.__main__ import main
main(sys.argv[1:])
"""
    shell = "(sh -c 'echo $$' &) ; read line"
    command = [sys.executable, "-c", program, "run", "--", "sh", "-c", shell]
    with subprocess.Popen(
        command,
        env=clean_environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        orphan = int(line_of(process))
        assert eventually(lambda: not Path(f"/proc/{orphan}").exists())
        process.communicate("\n")
    assert process.returncode == 0


def test_signals_are_at_their_defaults_and_unblocked_in_the_program() -> None:
    with start("--", "sh", "-c", "echo $$; read line") as process:
        child = int(line_of(process))
        assert signal_is("caught", signal.SIGUSR1, process.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
            assert not signal_is("blocked", number, child)
            # Started in the background, these tests have some ignored themselves.
            ignored = signal_is("ignored", number, os.getpid())
            assert signal_is("ignored", number, child) is ignored
        process.communicate("\n")


def test_a_signal_that_was_ignored_before_stays_so_in_the_program() -> None:
    shell = "trap '' USR1 INT; exec \"$@\""
    words = [*launcher("--", "sh", "-c", "echo $$; read line")]
    with subprocess.Popen(
        ["sh", "-c", shell, "sh", *words],
        env=clean_environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        child = int(line_of(process))
        assert signal_is("ignored", signal.SIGUSR1, child)
        assert signal_is("ignored", signal.SIGINT, child)
        process.communicate("\n")
