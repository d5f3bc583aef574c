import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from walras_launcher.wire import kafka_answers, redis_answers, split_address

Answering = Callable[[bytes], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A listener that answers one connection with given bytes: something other than a server."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(5)
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (struct.pack(">iiii", 12, 7, 1, 0), True),
        (struct.pack(">iiii", 12, 7, 0, 0), False),
        (struct.pack(">iiii", 12, 8, 1, 0), False),
        (struct.pack(">iiii", 12, 7, -1, 0), False),
        (struct.pack(">i", 12), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"", False),
    ],
    ids=["one broker", "no broker", "other answer", "negative", "cut short", "http", "closed"],
)
def test_only_a_metadata_answer_that_names_a_broker_counts(
    answer: bytes, expected: bool, answering: Answering
) -> None:
    assert kafka_answers(f"127.0.0.1:{answering(answer)}") is expected


@pytest.mark.parametrize(
    ("url", "answer", "expected"),
    [
        ("redis://127.0.0.1:{}/0", b"+PONG\r\n", True),
        ("redis://127.0.0.1:{}/0", b"-NOAUTH Authentication required.\r\n", False),
        ("redis://me:secret@127.0.0.1:{}/0", b"+OK\r\n+PONG\r\n", True),
        ("redis://127.0.0.1:{}/0", b"SSH-2.0\r\n", False),
    ],
)
def test_only_pong_counts_as_redis(
    url: str, answer: bytes, expected: bool, answering: Answering
) -> None:
    assert redis_answers(url.format(answering(answer))) is expected


@pytest.mark.parametrize("bootstrap", ["", "nowhere", "127.0.0.1:port", ","])
def test_an_address_that_is_none_does_not_answer(bootstrap: str) -> None:
    assert not kafka_answers(bootstrap)
    assert not redis_answers(f"redis://{bootstrap}:x")


def test_any_server_of_a_bootstrap_list_is_enough(answering: Answering) -> None:
    port = answering(struct.pack(">iiii", 12, 7, 1, 0))
    assert kafka_answers(f"127.0.0.1:1,127.0.0.1:{port}")


def test_addresses_with_brackets_are_split() -> None:
    assert split_address("[::1]:9092") == ("::1", 9092)
    assert split_address("broker:9092") == ("broker", 9092)
