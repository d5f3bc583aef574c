"""What every rung gives, and the rung of a server that somebody else runs."""

from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

from walras_launcher.errors import LauncherError
from walras_launcher.server import Rung

KAFKA_VARIABLE = "WALRAS_KAFKA_BOOTSTRAP"
REDIS_VARIABLE = "WALRAS_REDIS_URL"


class Server(Protocol):
    """What every rung gives.

    ``pid`` is ``None``, and ``kill`` and ``restart`` raise ``not_owned``, where the server was
    already running and is not ours; ``stop`` then does nothing.
    """

    rungs: tuple[Rung, ...]

    @property
    def pid(self) -> int | None:
        """Process id, where the server is ours."""

    def describe(self) -> str:
        """Say what runs here, with version and origin."""

    def stop(self) -> None:
        """Stop the server and remove what it left."""

    def kill(self) -> None:
        """Kill the server; it can be restarted."""

    def restart(self) -> None:
        """Start it again in the same place."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Broker(Server, Protocol):
    """A Kafka broker from any rung."""

    @property
    def bootstrap(self) -> str:
        """Address for clients."""


class Redis(Server, Protocol):
    """A Redis from any rung."""

    @property
    def url(self) -> str:
        """Address for clients."""


class _RunningServer:
    """A server that somebody else runs: used, never stopped."""

    def __init__(self, what: str, variable: str) -> None:
        self._what = what
        self._variable = variable
        self.rungs: tuple[Rung, ...] = ()

    @property
    def pid(self) -> None:
        """Not ours, so no process id."""
        return

    def describe(self) -> str:
        """Say where it is and who named it."""
        return f"{self._what}, already running ({self._variable})"

    def stop(self) -> None:
        """Do nothing: it is not ours."""

    def kill(self) -> None:
        """Refuse: it is not ours."""
        raise self._not_owned()

    def restart(self) -> None:
        """Refuse: it is not ours."""
        raise self._not_owned()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _not_owned(self) -> LauncherError:
        return LauncherError(
            "not_owned",
            f"{self._what} was already running and is not ours to stop.",
            f"Unset {self._variable}, or start a server of your own.",
        )


class RunningBroker(_RunningServer):
    """The broker that ``WALRAS_KAFKA_BOOTSTRAP`` names."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(f"Kafka at {bootstrap}", KAFKA_VARIABLE)
        self.bootstrap = bootstrap


class RunningRedis(_RunningServer):
    """The Redis that ``WALRAS_REDIS_URL`` names."""

    def __init__(self, url: str) -> None:
        # Only the place: the address may carry a password.
        place = urlsplit(url).netloc.rpartition("@")[2]
        super().__init__(f"Redis at {place}", REDIS_VARIABLE)
        self.url = url
