"""When the launcher says that everything is saved, and when it does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, eventually, is_gone, launcher, wall_ms
from walras_job.protocol import DrainDone, DrainProgress, DrainWarning

# Ends when it is told to, and replaces or rewrites its checkpoint when it is told to.
SCRIPT = """
while read word path; do
  case $word in
    replace) echo new > "$path.tmp"; mv "$path.tmp" "$path";;
    rewrite) echo other > "$path";;
    create) exec 3> "$path"; echo half >&3;;
    close) exec 3>&-;;
    touch) touch "$path";;
    end) exit 5;;
  esac
  echo "$word done"
done
"""
Tell = Callable[[str], None]


class Launched:
    """A launcher with a script that does what it is told."""

    def __init__(self, agent: Agent, *words: str) -> None:
        command = launcher(*words, "--", "sh", "-c", SCRIPT)
        self.process = agent.start(*command, stdin=subprocess.PIPE)

    def tell(self, words: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{words.split(maxsplit=1)[0]} done\n"

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate("end\n")
        return self.process.returncode, said


def waits_for(agent: Agent, session: str, text: str) -> Callable[[], bool]:
    def told() -> bool:
        progress = agent.progress()
        return progress is not None and progress.session == session and text in progress.text

    return told


def test_what_is_stateless_is_saved_at_once_and_goes_on(agent: Agent) -> None:
    launched = Launched(agent, "--stateless")
    agent.warn()
    assert eventually(lambda: agent.done() == DrainDone("s1"))
    launched.tell("go on")
    agent.warn("s2")
    assert eventually(lambda: agent.done() == DrainDone("s2"))
    code, said = launched.end()
    assert code == 5
    assert "asked to leave within 600 s: quota" in said
    assert "everything is saved" in said


def test_without_any_way_to_save_nothing_is_said_and_the_agent_is_told_so(agent: Agent) -> None:
    launched = Launched(agent)
    agent.warn()
    assert eventually(waits_for(agent, "s1", "this program cannot be asked to save"))
    assert launched.end()[0] == 5
    assert agent.done() is None


def test_a_file_that_is_replaced_after_the_warning_is_a_checkpoint(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "last.pt"
    launched = Launched(agent, "--checkpoint-file", str(path))
    launched.tell(f"replace {path}")
    agent.warn()
    assert eventually(waits_for(agent, "s1", f"{path} to be replaced"))
    launched.tell(f"rewrite {path}")
    launched.tell(f"touch {path}")
    # Two more sessions: both were looked at, and neither was answered.
    for session in ("s2", "s3"):
        agent.warn(session)
        assert eventually(waits_for(agent, session, "to be replaced"))
    assert agent.done() is None
    launched.tell(f"replace {path}")
    assert eventually(lambda: agent.done() == DrainDone("s3", None, str(path)))
    launched.end()


def test_a_half_written_file_of_before_the_warning_does_not_count_when_it_is_closed(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "first.pt"
    launched = Launched(agent, "--checkpoint-file", str(path))
    agent.warn("s1")
    assert eventually(waits_for(agent, "s1", "to be replaced"))
    launched.tell(f"create {path}")
    agent.cancel("s1")
    agent.warn("s2")
    # It began when the half-written file was there: nobody knows what is in that.
    assert eventually(waits_for(agent, "s2", "to be replaced"))
    launched.tell(f"close {path}")
    agent.warn("s3")
    assert eventually(waits_for(agent, "s3", "to be replaced"))
    assert agent.done() is None
    launched.tell(f"replace {path}")
    assert eventually(lambda: agent.done() is not None)
    launched.end()


def test_a_file_that_is_made_in_place_counts_when_it_is_closed(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "first.pt"
    launched = Launched(agent, "--checkpoint-file", str(path))
    agent.warn("s1")
    assert eventually(waits_for(agent, "s1", "to be replaced"))
    launched.tell(f"create {path}")
    assert agent.done() is None
    launched.tell(f"close {path}")
    assert eventually(lambda: agent.done() == DrainDone("s1", None, str(path)))
    launched.end()


def test_a_program_that_saves_and_ends_at_once_has_saved(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    launched = Launched(agent, "--checkpoint-file", str(path))
    agent.warn()
    assert eventually(waits_for(agent, "s1", "to be replaced"))
    assert launched.process.stdin is not None
    launched.process.stdin.write(f"replace {path}\nend\n")
    launched.process.communicate()
    assert launched.process.returncode == 5
    assert agent.done() == DrainDone("s1", None, str(path))


def test_a_warning_command_that_ends_well_has_saved(agent: Agent, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = (
        f'echo "$WALRAS_SESSION|$WALRAS_REASON|$WALRAS_DEADLINE_MS|$WALRAS_CHILD_PID" > {seen}'
    )
    launched = Launched(agent, "--warning-command", command)
    now = wall_ms()
    agent.control.write_warning(DrainWarning("s1", "a\nb\0c", now + 60_000, now))
    assert eventually(lambda: agent.done() == DrainDone("s1"))
    session, reason, deadline, child = seen.read_text("utf-8").strip().split("|")
    assert (session, reason, deadline) == ("s1", "a b c", str(now + 60_000))
    assert not is_gone(int(child))
    os.kill(int(child), signal.SIGKILL)
    launched.process.communicate()
    assert launched.process.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "the warning command ended with code 3"),
        ("kill -KILL $$", "the warning command ended by signal 9"),
        ("no-such-command-anywhere", "the warning command ended with code 127"),
    ],
)
def test_a_warning_command_that_fails_has_saved_nothing(
    agent: Agent, command: str, said: str
) -> None:
    launched = Launched(agent, "--warning-command", command)
    agent.warn()
    assert eventually(waits_for(agent, "s1", said))
    code, errors = launched.end()
    assert code == 5
    assert said in errors
    assert agent.done() is None


def test_a_warning_command_is_killed_at_the_deadline_with_all_that_it_started(
    agent: Agent, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    command = f"sh -c 'echo $$ >> {pids}; sleep 600' & echo $$ >> {pids}; sleep 600; true"
    launched = Launched(agent, "--warning-command", command)
    agent.warn(within_s=1.0)
    assert eventually(lambda: pids.exists() and len(pids.read_text("utf-8").split()) == 2)
    assert eventually(waits_for(agent, "s1", "killed at it"))
    shell, below = (int(word) for word in sorted(pids.read_text("utf-8").split()))
    assert eventually(lambda: is_gone(shell) and is_gone(below))
    launched.tell("still here")
    launched.end()
    assert agent.done() is None


def test_after_the_deadline_no_warning_command_is_started(agent: Agent, tmp_path: Path) -> None:
    launched = Launched(agent, "--warning-command", f"touch {tmp_path / 'ran'}")
    agent.warn(within_s=-1)
    assert eventually(waits_for(agent, "s1", "the time was over"))
    launched.end()
    assert not (tmp_path / "ran").exists()


def test_with_command_and_file_both_are_waited_for(agent: Agent, tmp_path: Path) -> None:
    path, go = tmp_path / "last.pt", tmp_path / "go"
    os.mkfifo(go)
    launched = Launched(
        agent, "--warning-command", f"read x < {go}", "--checkpoint-file", str(path)
    )
    agent.warn()
    assert eventually(waits_for(agent, "s1", "the warning command to end"))
    launched.tell(f"replace {path}")
    assert agent.done() is None
    go.write_text("go\n", "utf-8")
    assert eventually(lambda: agent.done() == DrainDone("s1", None, str(path)))
    agent.warn("s2")
    go.write_text("go\n", "utf-8")
    assert eventually(waits_for(agent, "s2", f"{path} to be replaced"))
    launched.tell(f"replace {path}")
    assert eventually(lambda: agent.done() == DrainDone("s2", None, str(path)))
    launched.end()


def test_a_program_that_ends_while_the_command_saves_is_answered_for(
    agent: Agent, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    pid = tmp_path / "pid"
    launched = Launched(
        agent, "--warning-command", f"echo $WALRAS_CHILD_PID > {pid}; read x < {go}"
    )
    agent.warn()
    assert eventually(lambda: pid.exists() and pid.read_text("utf-8"))
    assert launched.process.stdin is not None
    launched.process.stdin.write("end\n")
    launched.process.stdin.flush()
    # Not only ended: the launcher has reaped it, and waits all the same.
    assert eventually(lambda: not Path(f"/proc/{int(pid.read_text('utf-8'))}").exists())
    assert launched.process.poll() is None
    go.write_text("go\n", "utf-8")
    launched.process.communicate()
    assert launched.process.returncode == 5
    assert agent.done() == DrainDone("s1")


def test_a_cancelled_drain_is_not_answered_and_the_next_one_is(
    agent: Agent, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    begun = tmp_path / "begun"
    command = f"echo $WALRAS_SESSION >> {begun}; read x < {go}; test $x = well"
    launched = Launched(agent, "--warning-command", command)
    agent.warn("s1")
    assert eventually(waits_for(agent, "s1", "the warning command to end"))
    agent.cancel("s1")
    # The command of s1 still runs; that of s2 comes after it.
    agent.warn("s2")
    assert eventually(waits_for(agent, "s2", "the warning command of an earlier warning to end"))
    assert begun.read_text("utf-8") == "s1\n"
    go.write_text("well\n", "utf-8")
    assert eventually(waits_for(agent, "s2", "the warning command to end"))
    assert agent.done() is None
    go.write_text("well\n", "utf-8")
    assert eventually(lambda: agent.done() == DrainDone("s2"))
    launched.end()


def test_a_warning_that_came_before_the_launcher_is_answered(agent: Agent) -> None:
    agent.warn()
    launched = Launched(agent, "--stateless")
    assert eventually(lambda: agent.done() == DrainDone("s1"))
    launched.end()


def test_a_program_that_uses_the_sdk_answers_for_itself(agent: Agent) -> None:
    program = """
import sys
from walras_job import drainable
with drainable() as drain:
    print("open", flush=True)
    while not drain.requested:
        pass
    drain.done(step=12)
"""
    with agent.start(*launcher("--", sys.executable, "-c", program)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        agent.warn()
        process.send_signal(signal.SIGUSR1)
        _, said = process.communicate()
    assert process.returncode == 0
    assert agent.done() == DrainDone("s1", 12)
    assert "everything is saved" not in said


def test_what_the_program_said_itself_is_not_said_again_with_less(agent: Agent) -> None:
    said = DrainDone("s1", 12, "saved/12")
    agent.control.write_done(said)
    launched = Launched(agent, "--stateless")
    assert launched.process.stderr is not None
    agent.warn("s1", reason="first")
    assert "first" in launched.process.stderr.readline()
    agent.warn("s2", reason="second")
    # What the launcher says of s1 would stand between the two.
    assert "second" in launched.process.stderr.readline()
    assert eventually(lambda: agent.done() == DrainDone("s2"))
    launched.end()


def test_done_that_cannot_be_written_is_tried_again(agent: Agent) -> None:
    in_the_way = agent.control.path / "done.json"
    in_the_way.mkdir()
    (in_the_way / "x").touch()
    launched = Launched(agent, "--stateless")
    agent.warn()
    assert launched.process.stderr is not None
    lines = [launched.process.stderr.readline() for _ in range(3)]
    assert "done.json: no regular file" in lines[1]
    assert "done.json could not be written" in lines[2]
    (in_the_way / "x").unlink()
    in_the_way.rmdir()
    assert eventually(lambda: agent.done() == DrainDone("s1"))
    launched.end()


def test_a_file_that_cannot_be_looked_at_is_never_taken_for_replaced(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "loop"
    path.symlink_to(path)
    launched = Launched(agent, "--checkpoint-file", str(path))
    agent.warn()
    assert eventually(waits_for(agent, "s1", "to be replaced (Too many levels"))
    launched.tell(f"replace {path}")
    agent.warn("s2")
    assert eventually(waits_for(agent, "s2", "to be replaced"))
    assert agent.done() is None
    launched.end()


def test_progress_is_written_once_for_each_state(agent: Agent) -> None:
    launched = Launched(agent)
    agent.warn()
    assert eventually(waits_for(agent, "s1", "the deadline"))
    written = (agent.control.path / "progress.json").stat().st_ino
    launched.tell("go on")
    assert (agent.control.path / "progress.json").stat().st_ino == written
    assert agent.progress() == DrainProgress(
        "s1", "the deadline: this program cannot be asked to save"
    )
    launched.end()
