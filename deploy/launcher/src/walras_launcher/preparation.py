"""The once-only work before the first broker: jars, a formatted template, a class archive.

Each piece is made beside its place and renamed into it, so a piece that exists is whole. A file
lock lets one process work while others wait for it.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from walras_launcher.cache import cache_root, exclusive
from walras_launcher.errors import LauncherError, log_tail
from walras_launcher.java import Java, find_java, find_maven
from walras_launcher.versions import KAFKA_VERSION, SCALA_VERSION

Progress = Callable[[str], None]
Train = Callable[["Preparation", Path], None]

CLUSTER_ID = "q1Sh-9_ISia_zwGINzRvyQ"
RESOLVE_TIMEOUT_S = 600.0
FORMAT_TIMEOUT_S = 60.0
JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def progress_to_stderr(line: str) -> None:
    """Say one line to whoever watches this process."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a broker starts from.

    Attributes
    ----------
    home
        Directory of this Kafka version inside the cache.
    java
        The Java that runs it.
    steps
        What was done now, in order; empty when all was there.
    """

    home: Path
    java: Java
    steps: tuple[str, ...] = ()

    @property
    def jars(self) -> Path:
        """Directory of the resolved jars."""
        return self.home / "lib"

    @property
    def template(self) -> Path:
        """A freshly formatted data directory, copied for every new broker."""
        return self.home / "template"

    @property
    def archive(self) -> Path:
        """Class-data archive of this Java; may be missing."""
        return self.home / f"classes-{self.java.version}.jsa"

    @property
    def archive_failed(self) -> Path:
        """Left where an archive could not be made, so that it is not tried at every start."""
        return self.home / f"classes-{self.java.version}.failed"

    def complete(self) -> bool:
        """Tell whether nothing is left to do."""
        archived = self.archive.is_file() or self.archive_failed.is_file()
        return self.jars.is_dir() and self.template.is_dir() and archived

    def classpath(self) -> str:
        """Return the jars in a fixed order: an archive is only good for the same order."""
        return os.pathsep.join(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def kafka_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return where this Kafka version lives in the cache."""
    return cache_root(environment) / "kafka" / KAFKA_VERSION


def server_properties(port: int, controller_port: int, data: Path) -> str:
    """Fill the shipped ``server.properties`` template.

    Parameters
    ----------
    port, controller_port
        Loopback ports for clients and for the controller.
    data
        The broker's log directory.
    """
    text = (resources.files("walras_launcher") / "data" / "server.properties.in").read_text("utf-8")
    values = {"@PORT@": str(port), "@CONTROLLER_PORT@": str(controller_port), "@DATA@": str(data)}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def prepare(
    train: Train | None,
    *,
    progress: Progress = progress_to_stderr,
    environment: Mapping[str, str] | None = None,
) -> Preparation:
    """Do what is missing of the once-only work and return where it is.

    Parameters
    ----------
    train
        Runs a broker once so that its Java writes the class archive given; none skips it.
    progress
        Called with one line before each piece of work.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``java_*``, ``maven_missing``, ``maven_failed``, ``jars_incomplete`` or ``format_failed``.
    """
    ready = Preparation(kafka_home(environment), find_java(environment))
    if ready.complete():
        return ready
    steps: list[str] = []

    def say(line: str) -> None:
        steps.append(line)
        progress(line)

    with exclusive(ready.home / ".lock"):
        if not ready.jars.is_dir():
            _resolve(ready, find_maven(environment), say, environment)
        if not ready.template.is_dir():
            _format(ready, say)
        if train is not None and not ready.complete():
            _archive(ready, train, say)
    return Preparation(ready.home, ready.java, tuple(steps))


def _resolve(
    ready: Preparation, maven: Path, say: Progress, environment: Mapping[str, str] | None
) -> None:
    say(f"resolving Apache Kafka {KAFKA_VERSION} from Maven (once, about 10 s)")
    work = _fresh(ready.home / "lib.partial")
    log = ready.home / "resolve.log"
    pom = ready.home / "pom.xml"
    pom.write_bytes((resources.files("walras_launcher") / "data" / "pom.xml").read_bytes())
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}"]
    command = [str(maven), "-q", "-B", "-f", str(pom), *goal]
    code = _run(command, log, RESOLVE_TIMEOUT_S, environment)
    if code != 0:
        raise LauncherError(
            "maven_failed",
            f"Maven could not fetch Apache Kafka (exit code {code}):\n{log_tail(log)}\n",
            "Check that Maven reaches its repository (proxy, mirror in ~/.m2/settings.xml), "
            "then run it again.",
            retriable=True,
        )
    if not (work / f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}.jar").is_file():
        raise LauncherError(
            "jars_incomplete",
            f"Maven finished, but the jar of Kafka {KAFKA_VERSION} is not among what it fetched.",
            f"Remove {ready.home} and run it again.",
        )
    work.rename(ready.jars)


def _format(ready: Preparation, say: Progress) -> None:
    say("formatting a data directory template (once, about 1 s)")
    work = _fresh(ready.home / "template.partial")
    properties = ready.home / "format.properties"
    properties.write_text(server_properties(19092, 19093, work), "utf-8")
    log = ready.home / "format.log"
    tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    flags = ["-XX:TieredStopAtLevel=1", *JVM_FLAGS]
    command = [str(ready.java.path), *flags, "-cp", ready.classpath(), *tool]
    code = _run(command, log, FORMAT_TIMEOUT_S, None)
    if code != 0 or not (work / "meta.properties").is_file():
        raise LauncherError(
            "format_failed",
            f"Kafka could not format a data directory (exit code {code}):\n{log_tail(log)}\n",
            f"Remove {ready.home} and run it again.",
        )
    work.rename(ready.template)


def _archive(ready: Preparation, train: Train, say: Progress) -> None:
    say("archiving the broker's classes for quick starts (once, 6 to 10 s)")
    work = ready.archive.with_suffix(".partial")
    work.unlink(missing_ok=True)
    try:
        train(ready, work)
        work.rename(ready.archive)
    except (LauncherError, OSError) as error:
        # Only speed is lost: brokers start from the jars alone.
        ready.archive_failed.write_text(f"{error}\n", "utf-8")
        say("no class archive; brokers start about a second slower")
    finally:
        work.unlink(missing_ok=True)


def _fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def _run(
    command: list[str], log: Path, timeout_s: float, environment: Mapping[str, str] | None
) -> int | str:
    """Run a command into a log and return its exit code, or why it has none."""
    with log.open("wb") as sink:
        call = functools.partial(
            subprocess.run,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            check=False,
        )
        try:
            done = call(
                command,
                timeout=timeout_s,
                env=None if environment is None else dict(environment),
            )
        except subprocess.TimeoutExpired:
            return f"none after {timeout_s:.0f} s"
        except OSError as error:
            return f"none: {error}"
    return int(done.returncode)
