"""The machine of a run, and the environment in which nothing runs on more than one thread."""

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from libs.clearing.benchmarks.nested_bisection import compiler

ROOT: Final = Path(__file__).resolve().parents[3]
KIB_PER_GIB: Final = 1 << 20
THREAD_VARIABLES: Final = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("RAYON_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure depends on; ``load_average`` is that of the minute before the run."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    numpy: str
    compiler: str
    load_average: float

    def describe(self) -> str:
        """Say it in one line."""
        return (
            f"{self.cpu}, {self.cores} cores (one is used), {self.memory_gib:g} GiB, "
            f"{self.kernel}; Python {self.python}, NumPy {self.numpy}, {self.compiler}; "
            f"load average at start {self.load_average:g}"
        )


def this_machine() -> Machine:
    """Describe this machine (Linux)."""
    memory_kib = _field(Path("/proc/meminfo"), "MemTotal").split()[0]
    return Machine(
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(memory_kib) / KIB_PER_GIB, 1),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        numpy=version("numpy"),
        compiler=compiler_version(),
        load_average=round(os.getloadavg()[0], 2),
    )


def compiler_version() -> str:
    """Return the first line that the C compiler says about itself; empty without one."""
    command = compiler()
    if command is None:
        return ""
    answer = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.partition("\n")[0].strip()


def one_thread() -> dict[str, str]:
    """Return the variables that keep numerical libraries on one thread."""
    return dict.fromkeys(THREAD_VARIABLES, "1")


def _field(file: Path, name: str) -> str:
    for line in file.read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return " ".join(value.split())
    return ""
