"""Loopback ports that stay ours, also while the server behind them is down."""

import socket
import sys
from types import TracebackType
from typing import Self

from walras_launcher.errors import LauncherError

LOOPBACK = "127.0.0.1"


class PortReservation:
    """One TCP port on 127.0.0.1, held by a bound socket that never listens.

    While the socket lives, the kernel gives the port to nobody else: neither as a free port nor as
    the local end of an outgoing connection. The latter matters in kill tests, where clients knock
    on a dead port for seconds and may otherwise connect to themselves. The server can still bind
    it, because it sets ``SO_REUSEADDR`` as both Kafka and Redis do. A client that connects
    meanwhile is refused, as with any closed port. Elsewhere than on Linux the port is let go at
    once, and a race shows as an early exit of the server.

    Parameters
    ----------
    port
        The port wanted, or 0 for any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket: socket.socket | None = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, port))
        except OSError as error:
            self.release()
            raise LauncherError(
                "port_taken",
                f"Port {port} on {LOOPBACK} cannot be had: {error.strerror}.",
                "Choose another port, or leave it out to get a free one.",
                retriable=True,
            ) from error
        self.port: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        """Give the port back; a second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
