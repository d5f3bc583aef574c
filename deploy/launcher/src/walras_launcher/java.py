"""Finds a Java that can run the broker, and Maven that can fetch it."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from walras_launcher.errors import LauncherError
from walras_launcher.versions import MINIMUM_JAVA

_VERSION = re.compile(r'version "(?P<full>(?P<major>\d+)[^"]*)"')
JAVA_REMEDY = (
    f"Install Java {MINIMUM_JAVA} or newer (Debian and Ubuntu: apt-get install "
    "openjdk-17-jre-headless; Fedora: dnf install java-17-openjdk-headless; macOS: brew install "
    "openjdk@17) or point JAVA_HOME at one."
)
MAVEN_REMEDY = (
    "Install Apache Maven (Debian and Ubuntu: apt-get install maven; Fedora: dnf install maven; "
    "macOS: brew install maven). It is needed once, to fetch the broker."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher that is new enough.

    Attributes
    ----------
    path
        The executable.
    version
        What it says of itself, for example ``17.0.15``.
    """

    path: Path
    version: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java of ``JAVA_HOME``, else the one on ``PATH``.

    Parameters
    ----------
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``java_missing``, ``java_unusable`` or ``java_too_old``.
    """
    variables = os.environ if environment is None else environment
    home = variables.get("JAVA_HOME")
    found: str | None = None
    if home:
        found = shutil.which("java", path=str(Path(home) / "bin"))
    found = found or shutil.which("java", path=variables.get("PATH", os.defpath))
    if found is None:
        raise LauncherError("java_missing", "There is no Java on this machine.", JAVA_REMEDY)
    return _ask(found)


@functools.lru_cache(maxsize=8)
def _ask(path: str) -> Java:
    try:
        answer = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LauncherError(
            "java_unusable", f"{path} does not run: {error}.", JAVA_REMEDY
        ) from error
    match = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or match is None:
        raise LauncherError(
            "java_unusable", f"{path} does not say which version it is.", JAVA_REMEDY
        )
    if int(match["major"]) < MINIMUM_JAVA:
        raise LauncherError(
            "java_too_old",
            f"{path} is Java {match['full']}; Apache Kafka needs {MINIMUM_JAVA}.",
            JAVA_REMEDY,
        )
    return Java(Path(path), match["full"])


def find_maven(environment: Mapping[str, str] | None = None) -> Path:
    """Return the ``mvn`` on ``PATH``.

    Parameters
    ----------
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``maven_missing``.
    """
    variables = os.environ if environment is None else environment
    found = shutil.which("mvn", path=variables.get("PATH", os.defpath))
    if found is None:
        raise LauncherError("maven_missing", "There is no Maven on this machine.", MAVEN_REMEDY)
    return Path(found)
