"""Warning a job at its own address: what counts as an answer, and that nothing holds it up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from walras_node_agent.agent.contract import Answers
from walras_node_agent.host.warning import ask, ask_until_taken

T = TypeVar("T")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ENDLESS_MS = 60_000


def served(serve: Serve, work: Callable[[str], Awaitable[T]]) -> T:
    """Run a server on loopback and work with its address."""

    async def run() -> T:
        serving: list[asyncio.Task[None]] = []

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            serving.append(task)
            try:
                await serve(reader, writer)
            except ConnectionError:
                pass  # the agent does not read answers to their end
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await work(f"http://127.0.0.1:{port}/drain?now=1")
        finally:
            server.close()
            await asyncio.gather(*serving)
            await server.wait_closed()

    return asyncio.run(run())


def answering(line: bytes, seen: list[bytes] | None = None) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.extend((head, await reader.readexactly(2)))
        writer.write(line)
        await writer.drain()
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", Answers(saved=True, waits_for="the job saves")),
        (b"HTTP/1.0 204\n", Answers(saved=True, waits_for="the job saves")),
        (b"HTTP/1.1 202 Accepted\r\n\r\n", Answers(saved=False, waits_for="the job saves")),
    ],
)
def test_a_status_says_whether_all_is_saved_or_will_be(line: bytes, answer: Answers) -> None:
    assert served(answering(line), lambda url: ask(url, b"{}", ENDLESS_MS)) == answer


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\n\r\n", "status 302"),
        (b"HTTP/1.1 503 No\r\n\r\n", "status 503"),
        (b"hello\n", "not HTTP"),
        (b"HTTP/1.1 " + b"9" * 200_000, "not HTTP"),
        (b"", "not HTTP"),
        (b"HTTP/1.1 \xff\xfe\n", "not HTTP"),
    ],
)
def test_anything_else_is_no_answer_and_is_named(line: bytes, words: str) -> None:
    answer = served(answering(line), lambda url: ask(url, b"{}", ENDLESS_MS))
    assert isinstance(answer, str)
    assert words in answer


def test_the_warning_is_posted_to_the_path_as_json() -> None:
    seen: list[bytes] = []
    served(answering(b"HTTP/1.1 200 OK\r\n\r\n", seen), lambda url: ask(url, b"{}", ENDLESS_MS))

    assert seen[0].startswith(b"POST /drain?now=1 HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\nContent-Length: 2\r\n" in seen[0]
    assert seen[1] == b"{}"


def test_a_job_that_hangs_is_given_up_on_in_time() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    answer = served(hang, lambda url: ask(url, b"{}", 100))
    assert isinstance(answer, str)
    assert "does not answer" in answer


def test_a_job_that_is_not_there_yet_is_asked_again() -> None:
    noted: list[str] = []

    async def work(url: str) -> Answers | None:
        return await ask_until_taken(url, b"{}", ENDLESS_MS, noted.append)

    calls = 0

    async def second_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        line = b"HTTP/1.1 503 Later\r\n\r\n" if calls == 1 else b"HTTP/1.1 202 Yes\r\n\r\n"
        await answering(line)(reader, writer)

    answer = served(second_time, work)
    assert answer == Answers(saved=False, waits_for="the job saves")
    assert len(noted) == 1
    assert "503" in noted[0]


def test_where_nobody_listens_nothing_is_taken() -> None:
    noted: list[str] = []
    url = "http://127.0.0.1:1/"
    assert asyncio.run(ask_until_taken(url, b"{}", 500, noted.append)) is None
    assert noted
