"""A real Apache Kafka broker on loopback, from Maven jars, for development, tests and the demo."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from walras_launcher.cache import RunDirectory, cache_root
from walras_launcher.errors import LauncherError
from walras_launcher.ports import LOOPBACK, PortReservation
from walras_launcher.preparation import (
    JVM_FLAGS,
    Preparation,
    Progress,
    prepare,
    progress_to_stderr,
    server_properties,
)
from walras_launcher.server import OwnedServer, start_on_free_ports
from walras_launcher.versions import KAFKA_VERSION
from walras_launcher.wire import kafka_brokers

Jit = Literal["c1", "full"]

DEFAULT_HEAP = "384m"
READY_TIMEOUT_S = 60.0
# Java writes the archive after SIGTERM: seconds, or many on a loaded machine.
TRAINING_TIMEOUT_S = 120.0
_JIT_FLAGS: dict[Jit, tuple[str, ...]] = {"c1": ("-XX:TieredStopAtLevel=1",), "full": ()}


class KafkaBroker(OwnedServer):
    """One broker that this process owns; made by :func:`start_kafka`.

    It dies with this process, whatever thread started it and however the process ends.
    Acknowledged records survive :meth:`kill` (they are in the page cache), but not power loss.
    """

    name = "kafka"

    def __init__(
        self,
        prepared: Preparation,
        run: RunDirectory,
        ports: list[PortReservation],
        *,
        heap: str = DEFAULT_HEAP,
        jit: Jit = "c1",
        extra_properties: Mapping[str, str] | None = None,
        archive_to: Path | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        super().__init__(run, ports, ready_timeout_s)
        self._prepared = prepared
        self._heap = heap
        self._jit: Jit = jit
        self._extra = dict(extra_properties or {})
        self._archive_to = archive_to

    @property
    def bootstrap(self) -> str:
        """Address for clients, ``127.0.0.1:port``."""
        return f"{LOOPBACK}:{self._ports[0].port}"

    def describe(self) -> str:
        """Say what runs here: broker, where it came from, Java."""
        java = self._prepared.java.version
        return f"Apache Kafka {KAFKA_VERSION} from Maven jars, Java {java}"

    def answers(self) -> bool:
        """Tell whether a Metadata request is answered and names at least one broker."""
        try:
            return kafka_brokers(LOOPBACK, self._ports[0].port) >= 1
        except OSError:
            return False

    def command(self) -> list[str]:
        """Write the settings, format a new data directory, and return the Java command line."""
        data = self.directory / "data"
        if not (data / "meta.properties").is_file():
            shutil.copytree(self._prepared.template, data, dirs_exist_ok=True)
        port, controller_port = (reservation.port for reservation in self._ports)
        lines = [server_properties(port, controller_port, data)]
        lines += [f"{key}={value}\n" for key, value in self._extra.items()]
        properties = self.directory / "server.properties"
        properties.write_text("".join(lines), "utf-8")
        return [
            str(self._prepared.java.path),
            *_JIT_FLAGS[self._jit],
            "-Xms64m",
            f"-Xmx{self._heap}",
            *JVM_FLAGS,
            *self._archive_flags(),
            "-cp",
            self._prepared.classpath(),
            "kafka.Kafka",
            str(properties),
        ]

    def _archive_flags(self) -> list[str]:
        if self._archive_to is not None:
            return [f"-XX:ArchiveClassesAtExit={self._archive_to}"]
        if self._prepared.archive.is_file():
            # Silent and harmless where the archive does not fit this Java or these flags.
            return [f"-XX:SharedArchiveFile={self._prepared.archive}", "-Xlog:cds=off"]
        return []


def prepare_kafka(
    *, progress: Progress = progress_to_stderr, environment: Mapping[str, str] | None = None
) -> Preparation:
    """Do the once-only work: jars from Maven, a formatted template, a class archive.

    A second call finds all in place and does nothing. Two processes at once are safe: one works,
    the other waits.

    Parameters
    ----------
    progress
        Called with one line before each piece of work.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``java_missing``, ``java_unusable``, ``java_too_old``, ``maven_missing``, ``maven_failed``,
        ``jars_incomplete`` or ``format_failed``.
    """
    return prepare(_train, progress=progress, environment=environment)


def start_kafka(
    *,
    directory: Path | None = None,
    heap: str = DEFAULT_HEAP,
    jit: Jit = "c1",
    extra_properties: Mapping[str, str] | None = None,
    port: int = 0,
    progress: Progress = progress_to_stderr,
    environment: Mapping[str, str] | None = None,
    ready_timeout_s: float = READY_TIMEOUT_S,
) -> KafkaBroker:
    """Start a broker of its own and return it when it answers, in about two seconds.

    Parameters
    ----------
    directory
        Where it keeps its data; a directory used before is continued. Left out: a temporary one,
        removed by ``stop()``.
    heap
        Largest Java heap, as after ``-Xmx``.
    jit
        ``c1`` starts quicker; ``full`` is for throughput.
    extra_properties
        Broker settings added after the shipped ones; the last wins.
    port
        Port for clients; 0 for any free one.
    progress
        Called with one line before each piece of once-only work.
    environment
        Variables to look at; this process's own if left out.
    ready_timeout_s
        How long the start may take, in seconds.

    Raises
    ------
    LauncherError
        All of :func:`prepare_kafka`, and ``port_taken``, ``exited_early`` or ``not_ready``.
    """
    prepared = prepare_kafka(progress=progress, environment=environment)
    parent = cache_root(environment) / "run"

    def make() -> KafkaBroker:
        ports = [PortReservation(port), PortReservation()]
        return KafkaBroker(
            prepared,
            RunDirectory(directory, parent, "kafka-"),
            ports,
            heap=heap,
            jit=jit,
            extra_properties=extra_properties,
            ready_timeout_s=ready_timeout_s,
        )

    return start_on_free_ports(make)


def _train(prepared: Preparation, archive: Path) -> None:
    """Run a broker once so that its Java writes the classes that it used."""
    broker = KafkaBroker(
        prepared,
        RunDirectory(None, prepared.home / "run", "training-"),
        [PortReservation(), PortReservation()],
        archive_to=archive,
        ready_timeout_s=TRAINING_TIMEOUT_S,
    )
    with broker:
        broker.start()
        broker.terminate(TRAINING_TIMEOUT_S)
    if not archive.is_file():
        raise LauncherError(
            "archive_missing",
            "Java ended without writing the class archive.",
            "Nothing: brokers start without it.",
        )
