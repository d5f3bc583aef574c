"""How a job is told that it must leave, and what it answers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from walras_node_agent.agent.contract import (
    CANCEL_FILE,
    DONE_FILE,
    PROGRESS_FILE,
    WARNING_FILE,
    Answers,
    answer_of_status,
    answers,
)
from walras_node_agent.host.files import read_document, write_document
from walras_node_agent.host.machine import seconds

RETRY_MS: Final = 1_000
"""A job whose address does not answer is asked again after this."""
_LINE_BYTES_MOST: Final = 1_024
HTTP: Final = "HTTP/"


class Control:
    """The agent's side of the directory in which it and a job talk to each other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def warn(self, warning: Mapping[str, Any]) -> None:
        """Write the warning; raise OSError where that fails."""
        write_document(self._directory.joinpath(WARNING_FILE), dict(warning))

    def call_off(self, cancel: Mapping[str, Any]) -> None:
        """Write the cancel; raise OSError where that fails."""
        write_document(self._directory.joinpath(CANCEL_FILE), dict(cancel))

    def answers(self, session: str) -> Answers:
        """Return what the job's files say of a drain."""
        done = read_document(self._directory.joinpath(DONE_FILE))
        return answers(session, done, read_document(self._directory.joinpath(PROGRESS_FILE)))


async def ask(url: str, body: bytes, within_ms: int) -> Answers | str:
    """Warn a job at its own address.

    Parameters
    ----------
    url
        Of the job, on loopback.
    body
        The warning.
    within_ms
        For the whole answer; a job may hang in its hook.

    Returns
    -------
    Answers or str
        What it answers; or why there is no answer, in words.
    """
    try:
        async with asyncio.timeout(seconds(within_ms)):
            status = await _post(url, body)
    except TimeoutError:
        return f"{url} does not answer"
    except OSError as error:
        return f"{url}: {error.strerror or error}"
    except ValueError as error:
        return f"{url}: {error}"
    answer = answer_of_status(status)
    return f"{url} answers with status {status}" if answer is None else answer


async def _post(url: str, body: bytes) -> int:
    """Return the status; no proxy is used and no redirection followed."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        line = await reader.readuntil(b"\n")
        words = line[:_LINE_BYTES_MOST].decode("latin-1").split()
        if len(words) < 2 or not words[0].startswith(HTTP) or not words[1].isdigit():
            raise ValueError("its answer is not HTTP")
        return int(words[1])
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ValueError("its answer is not HTTP") from error
    finally:
        # Not closed in order: a job that hangs would hold that up, too.
        writer.transport.abort()


async def ask_until_taken(url: str, body: bytes, within_ms: int, note: Any) -> Answers | None:
    """Warn a job at its own address, again where nothing takes it; None: nothing ever did.

    ``note`` is called with the reason each time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds(within_ms)
    while True:
        left_ms = int((end - loop.time()) * 1000)
        if left_ms <= 0:
            return None
        answer = await ask(url, body, left_ms)
        if isinstance(answer, Answers):
            return answer
        note(answer)
        await asyncio.sleep(seconds(min(RETRY_MS, left_ms)))
