"""The Docker rung: the same servers as pinned images, where a Docker engine answers."""

import atexit
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from walras_launcher.errors import LauncherError
from walras_launcher.ports import LOOPBACK, PortReservation
from walras_launcher.server import Rung
from walras_launcher.versions import KAFKA_IMAGE, KAFKA_VERSION, REDIS_IMAGE
from walras_launcher.wire import kafka_answers, redis_answers

ENGINE_TIMEOUT_S = 10.0
PULL_TIMEOUT_S = 600.0
READY_TIMEOUT_S = 90.0
OWNER_LABEL = "walras.launcher.owner"
DOCKER_REMEDY = (
    "Install Docker and start its engine (Linux: systemctl start docker; macOS: Docker Desktop), "
    "and check with `docker info`."
)


def docker_program(environment: Mapping[str, str] | None = None) -> str:
    """Return the Docker client, if an engine answers it; the client alone proves nothing.

    Parameters
    ----------
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    LauncherError
        ``docker_missing`` or ``docker_silent``.
    """
    variables = os.environ if environment is None else environment
    found = shutil.which("docker", path=variables.get("PATH", os.defpath))
    if found is None:
        raise LauncherError("docker_missing", "There is no docker on PATH.", DOCKER_REMEDY)
    try:
        answer = subprocess.run(
            [found, "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=ENGINE_TIMEOUT_S,
            check=False,
            env=dict(variables),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _silent(str(error)) from error
    if answer.returncode != 0 or not answer.stdout.strip():
        raise _silent(answer.stderr.strip().splitlines()[-1] if answer.stderr.strip() else "")
    return found


def _silent(said: str) -> LauncherError:
    detail = f" ({said.rstrip('.')})" if said else ""
    return LauncherError(
        "docker_silent",
        f"The docker client is there, but no engine answers it{detail}.",
        DOCKER_REMEDY,
        retriable=True,
    )


def kafka_settings(port: int) -> dict[str, str]:
    """Return the image's environment: the settings of the shipped template that apply to it.

    Parameters
    ----------
    port
        Port on 127.0.0.1 that the engine forwards to the container's 9092.
    """
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        # The broker reaches itself by its own listener: the host's address means nothing inside.
        "KAFKA_LISTENERS": "HOST://:9092,INTERNAL://:19092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"HOST://{LOOPBACK}:{port},INTERNAL://localhost:19092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,HOST:PLAINTEXT"
        ),
        "KAFKA_NUM_PARTITIONS": "1",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "1",
        "KAFKA_MIN_INSYNC_REPLICAS": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "5",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "5",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
        "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "1000",
        "KAFKA_LOG_CLEANER_DEDUPE_BUFFER_SIZE": "2097152",
        "KAFKA_LOG_CLEANER_THREADS": "1",
        "KAFKA_LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS": "9223372036854775807",
        "KAFKA_BROKER_SESSION_TIMEOUT_MS": "2000",
        "KAFKA_BROKER_HEARTBEAT_INTERVAL_MS": "500",
    }


def run_arguments(
    image: str, name: str, port: int, inner_port: int, settings: Mapping[str, str]
) -> list[str]:
    """Return the arguments of ``docker`` that start one detached container on loopback."""
    words = ["run", "--detach", "--name", name, "--label", f"{OWNER_LABEL}={os.getpid()}"]
    words += ["--publish", f"{LOOPBACK}:{port}:{inner_port}"]
    for key, value in settings.items():
        words += ["--env", f"{key}={value}"]
    return [*words, image]


class ContainerServer:
    """A container that this process started; removed by :meth:`stop` and at its normal end.

    A container is the engine's child, so unlike the other rungs it outlives a parent that is
    killed; its name and the label ``walras.launcher.owner`` tell whose it was.
    """

    def __init__(
        self,
        docker: str,
        *,
        image: str,
        kind: str,
        inner_port: int,
        settings: Callable[[int], Mapping[str, str]],
        ready: Callable[[int], bool],
    ) -> None:
        # The engine's proxy must bind the port itself, so the reservation ends before the run.
        with PortReservation() as reservation:
            self.port = reservation.port
        self._docker = docker
        self._image = image
        self._ready = ready
        self._name = f"walras-{kind}-{os.getpid()}-{self.port}"
        self._stopped = False
        self.rungs: tuple[Rung, ...] = ()
        arguments = run_arguments(image, self._name, self.port, inner_port, settings(self.port))
        atexit.register(self.stop)
        try:
            self._call(*arguments, timeout_s=PULL_TIMEOUT_S)
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Process id of the server in the engine's namespace."""
        return int(self._call("inspect", "--format", "{{.State.Pid}}", self._name).strip())

    def describe(self) -> str:
        """Say which image runs."""
        return f"image {self._image} on Docker"

    def stop(self) -> None:
        """Remove the container and its data; a second call does nothing."""
        if not self._stopped:
            self._stopped = True
            atexit.unregister(self.stop)
            # Also runs after a failed start, where there may be no container to remove.
            with contextlib.suppress(LauncherError):
                self._call("rm", "--force", "--volumes", self._name)

    def kill(self) -> None:
        """Kill the server with SIGKILL; the container stays, for :meth:`restart`."""
        self._call("kill", "--signal", "KILL", self._name)

    def restart(self) -> None:
        """Start the same container again, after stopping what still runs."""
        self._call("restart", "--time", "15", self._name)
        self._wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._ready(self.port):
            if time.monotonic() > deadline:
                said = self._call("logs", "--tail", "20", self._name)
                raise LauncherError(
                    "not_ready",
                    f"{self._image} did not answer within {READY_TIMEOUT_S:.0f} s:\n{said}\n",
                    "Look at the log above.",
                    retriable=True,
                )
            time.sleep(0.1)

    def _call(self, *arguments: str, timeout_s: float = 60.0) -> str:
        try:
            done = subprocess.run(
                [self._docker, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _silent(str(error)) from error
        if done.returncode != 0:
            raise LauncherError(
                "docker_failed",
                f"`docker {arguments[0]}` failed: {done.stdout.strip()}.",
                f"Try `docker pull {self._image}` by hand.",
                retriable=True,
            )
        return done.stdout


class ContainerBroker(ContainerServer):
    """Apache Kafka in a container."""

    def __init__(self, docker: str) -> None:
        super().__init__(
            docker,
            image=KAFKA_IMAGE,
            kind="kafka",
            inner_port=9092,
            settings=kafka_settings,
            ready=lambda port: kafka_answers(f"{LOOPBACK}:{port}"),
        )

    @property
    def bootstrap(self) -> str:
        """Address for clients, ``127.0.0.1:port``."""
        return f"{LOOPBACK}:{self.port}"

    def describe(self) -> str:
        """Say what runs here and where it came from."""
        return f"Apache Kafka {KAFKA_VERSION}, {super().describe()}"


class ContainerRedis(ContainerServer):
    """Redis in a container."""

    def __init__(self, docker: str) -> None:
        super().__init__(
            docker,
            image=REDIS_IMAGE,
            kind="redis",
            inner_port=6379,
            settings=lambda _port: {},
            ready=lambda port: redis_answers(f"redis://{LOOPBACK}:{port}/0"),
        )

    @property
    def url(self) -> str:
        """Address for clients, ``redis://127.0.0.1:port/0``."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def describe(self) -> str:
        """Say what runs here and where it came from."""
        return f"Redis, {super().describe()}"
