"""Pytest fixtures for a real Kafka and a real Redis.

Loaded with ``-p walras_launcher.pytest_plugin``. A leg that cannot run is skipped with its reason
on a developer's machine. It fails where ``CI`` is true or ``WALRAS_REQUIRE`` names it.
``WALRAS_WAIVE`` takes a leg out again, in words that the report header repeats: for a build
machine that is known to have no Docker engine.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NoReturn, Protocol

import pytest

from walras_launcher.container import docker_program
from walras_launcher.errors import LauncherError
from walras_launcher.kafka import Jit, KafkaBroker, start_kafka
from walras_launcher.ladder import open_broker, open_redis, plan_broker, plan_redis
from walras_launcher.redis import RedisServer, start_redis
from walras_launcher.running import Broker, Redis

Leg = Literal["broker", "redis", "docker", "sanitizers", "valgrind", "cgroup", "mount"]

REQUIRE_VARIABLE = "WALRAS_REQUIRE"
WAIVE_VARIABLE = "WALRAS_WAIVE"
_STARTED = pytest.StashKey[list[str]]()


class OwnBroker(Protocol):
    """Starts a broker that the test may kill; stopped after the test."""

    def __call__(
        self,
        *,
        directory: Path | None = None,
        heap: str = "384m",
        jit: Jit = "c1",
        extra_properties: Mapping[str, str] | None = None,
    ) -> KafkaBroker:
        """Start one with the options of :func:`walras_launcher.kafka.start_kafka`."""


def _words(text: str) -> set[str]:
    return set(text.replace(",", " ").split())


def required(leg: Leg, environment: Mapping[str, str]) -> bool:
    """Tell whether a leg must run: a missing one is then a failure, not a skip.

    Parameters
    ----------
    leg
        What the test needs, such as ``broker`` or ``docker``.
    environment
        Variables to look at.
    """
    if leg in _words(environment.get(WAIVE_VARIABLE, "")):
        return False
    in_ci = environment.get("CI", "").lower() in {"1", "true", "yes"}
    return in_ci or leg in _words(environment.get(REQUIRE_VARIABLE, ""))


def missing(leg: Leg, error: Exception) -> NoReturn:
    """Skip or fail the test that needs a leg, with the reason."""
    if required(leg, os.environ):
        pytest.fail(f"the {leg} leg is required and cannot run: {error}", pytrace=False)
    pytest.skip(f"the {leg} leg cannot run here: {error}")


def pytest_report_header() -> list[str]:
    """Name the broker and the Redis that the tests would get."""
    lines = [f"walras broker: {plan_broker()}", f"walras redis: {plan_redis()}"]
    if os.environ.get(WAIVE_VARIABLE):
        lines.append(f"walras legs waived by {WAIVE_VARIABLE}: {os.environ[WAIVE_VARIABLE]}")
    return lines


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name what was really started."""
    for line in config.stash.get(_STARTED, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """One broker for the session; use topic, group and transactional ids of your own."""
    try:
        broker = open_broker()
    except LauncherError as error:
        missing("broker", error)
    pytestconfig.stash.setdefault(_STARTED, []).append(f"walras broker used: {broker.describe()}")
    with broker:
        yield broker


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config) -> Iterator[Redis]:
    """One Redis for the session; use keys of your own."""
    try:
        server = open_redis()
    except LauncherError as error:
        missing("redis", error)
    pytestconfig.stash.setdefault(_STARTED, []).append(f"walras redis used: {server.describe()}")
    with server:
        yield server


@pytest.fixture
def own_broker() -> Iterator[OwnBroker]:
    """Start brokers that this test alone uses and may kill; they are stopped after it."""
    brokers: list[KafkaBroker] = []

    def start(
        *,
        directory: Path | None = None,
        heap: str = "384m",
        jit: Jit = "c1",
        extra_properties: Mapping[str, str] | None = None,
    ) -> KafkaBroker:
        try:
            broker = start_kafka(
                directory=directory, heap=heap, jit=jit, extra_properties=extra_properties
            )
        except LauncherError as error:
            missing("broker", error)
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        broker.stop()


@pytest.fixture
def own_redis() -> Iterator[Callable[[], RedisServer]]:
    """Start Redis servers that this test alone uses and may kill; they are stopped after it."""
    servers: list[RedisServer] = []

    def start() -> RedisServer:
        try:
            server = start_redis()
        except LauncherError as error:
            missing("redis", error)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def docker_engine() -> str:
    """Path of a Docker client whose engine answers."""
    try:
        return docker_program()
    except LauncherError as error:
        missing("docker", error)
