"""Which machine, which versions, and how busy it was: a figure without them says nothing."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from walras_launcher.java import find_java
from walras_launcher.versions import KAFKA_VERSION

ROOT = Path(__file__).resolve().parents[2]
KIB_PER_GIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run; ``load_average`` is that of the minute before it began."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    java: str
    kafka: str
    load_average: float

    def describe(self) -> str:
        """Say it in one line."""
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:g} GiB, {self.kernel}; "
            f"Python {self.python}, Java {self.java}, Apache Kafka {self.kafka}; "
            f"load average at start {self.load_average:g}"
        )


def this_machine() -> Machine:
    """Describe this machine (Linux).

    Raises
    ------
    LauncherError
        There is no Java that can run the broker.
    """
    return Machine(
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(
            int(_field(Path("/proc/meminfo"), "MemTotal").split()[0]) / KIB_PER_GIB, 1
        ),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        java=find_java().version,
        kafka=KAFKA_VERSION,
        load_average=round(os.getloadavg()[0], 2),
    )


def commit() -> tuple[str, bool]:
    """Return the commit of the checkout and whether files differ from it; empty without git."""
    head = _git("rev-parse", "--short=12", "HEAD")
    return head, bool(head and _git("status", "--porcelain"))


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _field(file: Path, name: str) -> str:
    for line in file.read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return " ".join(value.split())
    return ""
