"""A web server and a mail server on loopback that answer as a test says, and keep what they got."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("localhost.pem")
LOOPBACK = "127.0.0.1"
PATIENCE_S = 60.0
POLL_S = 0.02


def server_context() -> ssl.SSLContext:
    """Return what a server needs to be `localhost`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def trusting_context() -> ssl.SSLContext:
    """Return what a client needs to believe it."""
    return ssl.create_default_context(cafile=str(CERTIFICATE))


async def until(condition: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds; fail the test when it does not in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while not condition():
        assert loop.time() < end, f"not in time: {what}"
        await asyncio.sleep(POLL_S)


class _Server:
    """Accepts connections; closes them all in the end."""

    def __init__(self) -> None:
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._accepted, LOOPBACK, 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await self.talk(reader, writer)
        except asyncio.CancelledError:
            return
        finally:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                writer.close()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        raise NotImplementedError


# --- the web ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def notification(self) -> str:
        """Id of the notice."""
        return self.headers["walras-notification"]


Answer = bytes | None
"""What is written back; None: the connection is closed without a word."""


def status(code: int, **headers: str) -> bytes:
    """Return an answer without a body; `_` in names of headers stands for `-`."""
    lines = [f"HTTP/1.1 {code} Because", "Content-Length: 0"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def hang(_: Request) -> Answer:
    """Never answer."""
    await asyncio.Event().wait()
    return None


class HookServer(_Server):
    """Takes webhooks; answers each by the next of `script`, and then always by the last."""

    def __init__(self, *script: Answer | Callable[[Request], Awaitable[Answer]]) -> None:
        super().__init__()
        self.script = list(script)
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{LOOPBACK}:{self.port}/hook"

    def ids(self) -> list[str]:
        """Return the ids of the notices in the order in which they came."""
        return [request.notification for request in self.requests]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(head[0], headers, body)
        self.requests.append(request)
        following = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        answer = await following(request) if callable(following) else following
        if answer is not None:
            writer.write(answer)
            await writer.drain()


# --- mail ---------------------------------------------------------------------------------------


@dataclass
class MailServerScript:
    """How a mail server answers."""

    tls: bool = False
    """It offers STARTTLS."""
    login: str | None = None
    """It wants this answer to AUTH PLAIN (base64)."""
    replies: dict[str, list[str]] = field(default_factory=dict)
    """By command (the greeting is `HELLO`, the end of the message `.`): what it says, the first
    first; `HANG` says nothing until the client has gone, which is noted as the command `GONE`;
    `CLOSE` ends the connection. Where there is none, all is well."""

    def next(self, command: str, good: str) -> str:
        """Return what is said to a command."""
        left = self.replies.get(command, [])
        return left.pop(0) if left else good


@dataclass(frozen=True)
class Mail:
    """A mail as it was handed over."""

    recipient: str
    data: bytes
    encrypted: bool


class SmtpServer(_Server):
    """Takes mail."""

    def __init__(self, script: MailServerScript | None = None) -> None:
        super().__init__()
        self.script = script or MailServerScript()
        self.mails: list[Mail] = []
        self.commands: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hold one conversation."""
        recipient, encrypted = "", writer.get_extra_info("ssl_object") is not None

        async def say(command: str, good: str) -> bool:
            reply = self.script.next(command, good)
            if reply == "HANG":
                await reader.read()
                self.commands.append("GONE")
            if reply == "CLOSE":
                raise ConnectionError
            writer.write(f"{reply}\r\n".encode())
            await writer.drain()
            return reply == good

        await say("HELLO", "220 here")
        while line := await reader.readline():
            command = line.decode().strip()
            word = command.partition(" ")[0].upper()
            self.commands.append(word)
            if word == "EHLO":
                extras = ["STARTTLS"] if self.script.tls and not encrypted else []
                extras += ["AUTH PLAIN"] if self.script.login else []
                names = ["localhost", *extras, "8BITMIME"]
                lines = [f"250-{name}" for name in names[:-1]] + [f"250 {names[-1]}"]
                await say(word, "\r\n".join(lines))
            elif word == "STARTTLS":
                if await say(word, "220 go on"):
                    await writer.start_tls(server_context())
                    encrypted = True
            elif word == "AUTH":
                right = command.split()[-1] == self.script.login
                await say(word, "235 welcome" if right else "535 no")
            elif word == "RCPT":
                recipient = command.partition("<")[2].partition(">")[0]
                await say(word, "250 ok")
            elif word == "DATA":
                if await say(word, "354 go on"):
                    data = (await reader.readuntil(b"\r\n.\r\n"))[: -len(b".\r\n")]
                    if await say(".", "250 taken"):
                        plain = data.replace(b"\r\n..", b"\r\n.")
                        self.mails.append(Mail(recipient, plain, encrypted))
            elif word == "QUIT":
                await say(word, "221 bye")
                return
            else:
                await say(word, "250 ok")
