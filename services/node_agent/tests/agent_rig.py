"""The real agent with real processes, and a log of files: what it is told, what it tells."""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from services.node_agent.tests.lives import command
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.runs import EnvironmentVariable, RunSpec, WarningKind
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)
from walras_node_agent.host.machine import boottime_ms, parents, started, with_variable

ROOT = Path(__file__).resolve().parents[3]
JOB = Path(__file__).with_name("job.py")
NODE = "n1"
PATIENCE_S = 60.0
"""Upper bound of every wait; far above what an idle machine needs."""
POLL_S = 0.02
FAST = {
    "POLL_MS": "20",
    "DEVICE_READ_MS": "50",
    "HEARTBEAT_MS": "300",
    "PROGRESS_MS": "300",
    "LEAVE_MS": "300",
    "TERMINATE_MS": "1500",
    "VERIFY_MS": "2000",
    "ORPHAN_MS": "60000",
    "DEVICES": "4",
}
T = TypeVar("T")


class Zygote:
    """The process from which all agents of this test process are forked."""

    def __init__(self) -> None:
        paths = [str(path) for path in (ROOT, *sys.path) if path]
        self.python_path = os.pathsep.join(dict.fromkeys(paths))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "services.node_agent.tests.agent_zygote"],
            env={**os.environ, "PYTHONPATH": self.python_path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def ask(self, **order: object) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@cache
def zygote() -> Zygote:
    found = Zygote()
    atexit.register(found.close)
    return found


class AgentProcess:
    """An agent that was forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = zygote().ask(pid=self.pid)
        return self._code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"the agent {self.pid} does not end"
            time.sleep(POLL_S)
        return code


class Rig:
    """One node: its directory, its agent, what the log says and is told."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.checkpoints = directory / "checkpoints"
        self.devices = directory / "devices"
        self.agent: AgentProcess | None = None
        self._settings = {"NODE": NODE, **FAST, **settings}
        self.node = self._settings["NODE"]
        self._log = directory / "agent.log"
        (directory / "inbox").touch()

    # The agent.

    def environment(self) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
        return {
            **clean,
            "PYTHONPATH": zygote().python_path,
            "WALRAS_KAFKA_BOOTSTRAP": "nowhere.invalid:9092",
            "WALRAS_NODE_AGENT_STATE_DIRECTORY": str(self.state),
            "WALRAS_NODE_AGENT_CHECKPOINT_DIRECTORY": str(self.checkpoints),
            "WALRAS_NODE_AGENT_DEVICE_DIRECTORY": str(self.devices),
            **{f"WALRAS_NODE_AGENT_{name}": value for name, value in self._settings.items()},
        }

    def start(self, file_limit: int | None = None) -> None:
        pid = zygote().ask(
            environment=self.environment(),
            directory=str(self.directory),
            log=str(self._log),
            file_limit=file_limit,
        )
        assert pid is not None
        self.agent = AgentProcess(pid)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End the agent; what it started is left alone."""
        assert self.agent is not None
        self.agent.send_signal(number)
        return self.agent.wait()

    def close(self) -> None:
        """End the agent, then all that it started: by the directory that they were told of."""
        if self.agent is not None and self.agent.poll() is None:
            self.kill()
        for lease in self.leases():
            for pid in self.processes(lease):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def text(self) -> str:
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    # What the log says.

    def write(self, topic: str, lease: str, event: Event | None) -> None:
        document = None if event is None else event.model_dump(mode="json")
        line = json.dumps({"topic": topic, "lease": lease, "event": document})
        with (self.directory / "inbox").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def grant(
        self,
        behaviour: str | tuple[str, ...],
        lease: str = "l1",
        *,
        job: str = "",
        attempt: int = 1,
        drainability: Drainability = Drainability.CHECKPOINT,
        warning: WarningKind = WarningKind.SIGNAL,
        url: str | None = None,
        devices: tuple[int, ...] = (0,),
        parts: int = 1,
        may_start: bool = True,
        run_ms: int | None = None,
        work_class: WorkClass = WorkClass.MARKET,
        **environment: str,
    ) -> None:
        """Write a part's record: it runs a behaviour of ``job.py``, or a program with arguments."""
        names = {"TEST_DEVICES": str(self.devices), **environment}
        own = (str(JOB), behaviour) if isinstance(behaviour, str) else behaviour
        run = RunSpec(
            command=(sys.executable, *own),
            environment=tuple(EnvironmentVariable(name=n, value=v) for n, v in names.items()),
            warning=warning,
            warning_url=url,
        )
        grant = LeaseGranted(
            lease=lease,
            node=self.node,
            part=0,
            parts=parts,
            attempt=attempt,
            job=job or f"job-{lease}",
            team="t1",
            pool="p",
            market="a",
            work_class=work_class,
            devices=devices,
            size_macc=1000 * len(devices),
            limit_micro=None,
            granted_ms=0,
            remaining_run_ms=run_ms,
            drainability=drainability,
            run=run,
            may_start=may_start,
        )
        self.write("leases", lease, grant)

    def drain(
        self,
        lease: str = "l1",
        said: DrainCommand = DrainCommand.DRAIN,
        session: str = "s1",
        **times: int,
    ) -> None:
        told = command(said, session, lease=lease, node=self.node)
        fast = {"warning_ms": 1_500, "terminate_ms": 1_500, "verify_ms": 2_000}
        self.write("drain.commands", lease, told.model_copy(update={**fast, **times}))

    # What it tells.

    def told(self) -> list[Event]:
        path = self.directory / "outbox"
        if not path.exists():
            return []
        found = []
        for line in path.read_text("utf-8").split("\n")[:-1]:
            *_, kind, payload = json.loads(line)
            if payload is not None:
                found.append(decode_inner(kind, payload.encode()))
        return found

    def statuses(self, lease: str = "l1") -> list[tuple[str, str]]:
        """States and outcomes of a lease, as told."""
        return [
            (e.state.value, e.outcome.value)
            for e in self.told()
            if isinstance(e, LeaseStatusChanged) and e.lease == lease
        ]

    def last_status(self, lease: str = "l1") -> LeaseStatusChanged | None:
        mine = [e for e in self.told() if isinstance(e, LeaseStatusChanged) and e.lease == lease]
        return mine[-1] if mine else None

    def drains(self, lease: str = "l1") -> list[DrainStatusChanged]:
        return [e for e in self.told() if isinstance(e, DrainStatusChanged) and e.lease == lease]

    def drain_states(self, lease: str = "l1") -> list[str]:
        """States of a drain, repetitions left out."""
        states = [e.state.value for e in self.drains(lease)]
        return [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]

    def usage(self, lease: str = "l1") -> list[UsageMetered]:
        mine = [e for e in self.told() if isinstance(e, UsageMetered) and e.lease == lease]
        return sorted(mine, key=lambda u: u.seq)

    def heartbeats(self) -> list[NodeHealthReported]:
        return [e for e in self.told() if isinstance(e, NodeHealthReported)]

    # What runs.

    def leases(self) -> list[str]:
        parts = self.state / "parts"
        return sorted(path.name for path in parts.iterdir()) if parts.exists() else []

    def control(self, lease: str = "l1") -> Path:
        return self.state / "parts" / lease / "control"

    def processes(self, lease: str = "l1") -> list[int]:
        """All that runs of a lease, its keeper aside: by the mark that all of it inherits."""
        return with_variable("WALRAS_CONTROL_DIR", str(self.control(lease)))

    def keepers(self) -> list[int]:
        """Every keeper of this node."""
        found = []
        for pid in sorted(parents()):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                where = str(self.state).encode()
                if b"walras_node_agent.host.keeper" in words and any(
                    word.startswith(where) for word in words
                ):
                    found.append(pid)
        return found

    def job_says(self, lease: str = "l1") -> list[str]:
        path = self.checkpoints / "t1" / f"job-{lease}" / "log"
        text = path.read_text("utf-8") if path.exists() else ""
        return [line.partition(" ")[2] for line in text.splitlines()]

    def touch(self, name: str, lease: str = "l1") -> None:
        (self.checkpoints / "t1" / f"job-{lease}" / name).touch()

    def hold(self, device: int, pid: int) -> Path:
        path = self.devices / str(device) / str(pid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    # Waiting.

    def until(self, look: Callable[[], T], what: str) -> T:
        """Poll until something is there; fail the test when it is not in time."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := look()):
            agent = self.agent
            assert agent is None or agent.poll() is None, f"the agent ended: {self.text()}"
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.text()}"
            time.sleep(POLL_S)
        return found

    def until_running(self, lease: str = "l1") -> int:
        """Wait until a job runs and says so; return the pid of its first process."""
        self.until(lambda: self.statuses(lease)[-1:] == [("running", "")], f"{lease} running")
        self.until(lambda: "started" in self.job_says(lease), f"{lease} says that it started")
        path = self.state / "parts" / lease / "started.json"
        return int(json.loads(path.read_text("utf-8"))["pid"])

    def until_freed(self, lease: str = "l1") -> LeaseStatusChanged:
        def freed() -> LeaseStatusChanged | None:
            status = self.last_status(lease)
            return status if status is not None and status.state.value == "freed" else None

        found = self.until(freed, f"{lease} freed")
        assert found is not None
        return found

    def until_ends(self, pid: int) -> None:
        self.until(lambda: started(pid) is None, f"end of {pid}")

    def until_boot_ms(self, at_ms: int) -> None:
        self.until(lambda: boottime_ms() >= at_ms, f"{at_ms} ms since boot")


@contextmanager
def rig(directory: Path, **settings: str) -> Iterator[Rig]:
    """Make a node with a running agent; nothing of it runs afterwards."""
    made = Rig(directory, **settings)
    made.start()
    try:
        yield made
    finally:
        made.close()


def check_usage(usage: list[UsageMetered]) -> None:
    """Check that numbers are dense, and that intervals neither overlap nor leave a gap."""
    first_told = list({u.seq: u for u in reversed(usage)}.values())[::-1]
    for each in usage:
        assert each in first_told, f"number {each.seq} was told with two bodies"
    assert [u.seq for u in first_told] == list(range(len(first_told)))
    assert [u.start_ms for u in first_told[1:]] == [u.end_ms for u in first_told[:-1]]
