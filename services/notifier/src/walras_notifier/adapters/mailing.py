"""E-mail through one SMTP server; a conversation each, in a thread."""

import asyncio
import contextlib
import smtplib
import socket
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

from walras_contracts.drains import NotificationIssued
from walras_notifier.outcomes import Delivered, Failed, Outcome, Refused, of_recipient
from walras_notifier.rendering import email_message
from walras_notifier.subscriptions import MailServer, Receiver
from walras_runtime.health import Health

CONNECTIONS: Final = 4
PART: Final = "smtp"


class ServerFaultError(Exception):
    """The server does not work, whoever the mail is for; the message names no address."""


class Conversation:
    """One conversation with the server, for one mail; it may be broken off from another thread."""

    def __init__(
        self,
        server: MailServer,
        password: bytes | None,
        context: ssl.SSLContext,
        timeout_s: float,
    ) -> None:
        self._server = server
        self._password = password
        self._context = context
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None

    def send(self, address: str, message: bytes) -> Outcome:
        """Hand a mail over.

        Raises
        ------
        ServerFaultError
            It did not come to the mail itself.
        """
        step = "connect"
        client: smtplib.SMTP | None = None
        try:
            client = self._connect()
            self._socket = client.sock
            step = "starttls"
            if self._server.security == "starttls":
                # Raises where the server does not offer it: never in clear instead.
                client.starttls(context=self._context)
                self._socket = client.sock
            step = "login"
            if self._server.user is not None and self._password is not None:
                client.login(self._server.user, self._password.decode())
            step = "mail"
            client.sendmail(self._server.sender, [address], message)
        except smtplib.SMTPRecipientsRefused as error:
            return of_recipient(next(iter(error.recipients.values()))[0])
        except smtplib.SMTPDataError as error:
            return of_recipient(error.smtp_code)
        except smtplib.SMTPResponseException as error:
            raise ServerFaultError(f"{step}: smtp {error.smtp_code}") from error
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise ServerFaultError(f"{step}: {type(error).__name__}") from error
        else:
            # It is theirs now, whatever becomes of the goodbye.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                client.quit()
            return Delivered()
        finally:
            if client is not None:
                client.close()

    def _connect(self) -> smtplib.SMTP:
        server = self._server
        hello = server.sender.rpartition("@")[2]
        if server.security == "tls":
            return smtplib.SMTP_SSL(
                server.host, server.port, hello, timeout=self._timeout_s, context=self._context
            )
        return smtplib.SMTP(server.host, server.port, hello, timeout=self._timeout_s)

    def break_off(self) -> None:
        """Wake the thread that waits for the server."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Mailer:
    """Sends notices as e-mail.

    Parameters
    ----------
    server, password
        The server, and the password where it has a user.
    context
        Whose certificates are trusted.
    timeout_ms
        How long one mail may take.
    health
        It is red while the server itself does not work.
    threads
        Where conversations are held, :data:`CONNECTIONS` at a time.
    """

    def __init__(
        self,
        server: MailServer,
        password: bytes | None,
        *,
        context: ssl.SSLContext,
        timeout_ms: int,
        health: Health,
        threads: ThreadPoolExecutor,
    ) -> None:
        self._server = server
        self._password = password
        self._context = context
        self._timeout_s = timeout_ms / 1000
        self._health = health
        self._threads = threads
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def __call__(self, receiver: Receiver, notice: NotificationIssued) -> Outcome:
        """Make one attempt."""
        assert receiver.email is not None
        message = email_message(notice, self._server.sender, receiver.email)
        talk = Conversation(self._server, self._password, self._context, self._timeout_s)
        # Waiting for a thread is not the server's time.
        await self._slots.acquire()
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, talk.send, receiver.email, message
        )
        # A thread that was given up keeps its place until it has ended.
        work.add_done_callback(self._released)
        try:
            async with asyncio.timeout(self._timeout_s):
                outcome = await asyncio.shield(work)
        except ServerFaultError as error:
            return self._failed(str(error))
        except TimeoutError:
            talk.break_off()
            return self._failed("no answer in time")
        except asyncio.CancelledError:
            talk.break_off()
            raise
        if isinstance(outcome, Delivered | Refused):
            self._health.clear(PART)
        return outcome

    def _released(self, work: "asyncio.Future[Outcome]") -> None:
        self._slots.release()
        if not work.cancelled():
            work.exception()  # of one that was given up nobody asks

    def _failed(self, why: str) -> Outcome:
        self._health.fail(PART, why)
        return Failed(f"smtp {why}")


@asynccontextmanager
async def open_mailer(
    server: MailServer,
    password: bytes | None,
    *,
    timeout_ms: int,
    health: Health,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[Mailer]:
    """Open a mailer; afterwards its threads end with what they are at, which is not waited for.

    Parameters
    ----------
    server, password, timeout_ms, health
        As in :class:`Mailer`.
    context
        Whose certificates are trusted; None: those that the system trusts.
    """
    threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="smtp")
    try:
        yield Mailer(
            server,
            password,
            context=ssl.create_default_context() if context is None else context,
            timeout_ms=timeout_ms,
            health=health,
            threads=threads,
        )
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
