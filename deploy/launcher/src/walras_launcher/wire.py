"""The two questions that tell a server from an open port: Kafka's Metadata, Redis's PING."""

import socket
import ssl
import struct
from urllib.parse import unquote, urlsplit

ANSWER_TIMEOUT_S = 2.0

_METADATA = 3
_METADATA_VERSION = 1
_CORRELATION = 7
_CLIENT = b"walras-launcher"


def _receive(connection: socket.socket, length: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < length:
        chunk = connection.recv(length - len(chunks))
        if not chunk:
            raise ConnectionError("the other side closed the connection")
        chunks += chunk
    return bytes(chunks)


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` (also ``[v6]:port``) into host and port.

    Raises
    ------
    ValueError
        There is no port, or it is no number.
    """
    host, separator, port = address.strip().rpartition(":")
    if not separator or not host:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


def kafka_brokers(host: str, port: int, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
    """Ask a Kafka server for its metadata and return how many brokers the answer names.

    Parameters
    ----------
    host, port
        Where the server listens.
    timeout_s
        Limit for connecting and for each read, in seconds.

    Raises
    ------
    OSError
        Nothing answers there, or not in time.
    """
    head = struct.pack(">hhih", _METADATA, _METADATA_VERSION, _CORRELATION, len(_CLIENT))
    request = head + _CLIENT + struct.pack(">i", 0)
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", _receive(connection, 4))
        if not 12 <= length <= 64 * 1024 * 1024:
            raise ConnectionError("the answer is not Kafka's")
        body = _receive(connection, length)
    correlation, brokers = struct.unpack_from(">ii", body)
    if correlation != _CORRELATION or brokers < 0:
        raise ConnectionError("the answer is not Kafka's")
    return int(brokers)


def kafka_answers(bootstrap: str, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
    """Tell whether any server of a comma-separated bootstrap list names at least one broker."""
    for address in bootstrap.split(","):
        try:
            host, port = split_address(address)
            if kafka_brokers(host, port, timeout_s) >= 1:
                return True
        except (OSError, ValueError):
            continue
    return False


def _command(*words: str) -> bytes:
    encoded = [word.encode() for word in words]
    parts = [b"*%d\r\n" % len(encoded)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
    return b"".join(parts)


def redis_answers(url: str, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
    """Tell whether a Redis at ``redis://`` or ``rediss://`` answers PING with PONG.

    Parameters
    ----------
    url
        Address, with user and password where the server wants them.
    timeout_s
        Limit for connecting and for each read, in seconds.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 6379
        words = [_command("PING")]
        if parts.password is not None:
            user = [unquote(parts.username)] if parts.username else []
            words.insert(0, _command("AUTH", *user, unquote(parts.password)))
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            plain.settimeout(timeout_s)
            connection = plain
            if parts.scheme == "rediss":
                context = ssl.create_default_context()
                connection = context.wrap_socket(plain, server_hostname=host)
            connection.sendall(b"".join(words))
            lines = connection.makefile("rb")
            answers = [lines.readline() for _ in words]
    except (OSError, ValueError):
        return False
    return answers[-1] == b"+PONG\r\n"
