"""Webhooks over HTTP."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from yarl import URL

from walras_contracts.drains import NotificationIssued
from walras_notifier.outcomes import Failed, Outcome, Refused, of_status
from walras_notifier.rendering import webhook_body
from walras_notifier.signing import headers
from walras_notifier.subscriptions import Receiver
from walras_runtime.clock import wall_ms

REPEATED: Final = frozenset({307, 308})
"""Redirections that ask for the same request, not for another one."""
REDIRECTIONS: Final = 3


class Webhooks:
    """Posts notices, signed.

    Parameters
    ----------
    session
        The client.
    secrets
        By name.
    timeout_ms
        How long one attempt may take, redirections included.
    """

    def __init__(
        self, session: aiohttp.ClientSession, secrets: Mapping[str, bytes], timeout_ms: int
    ) -> None:
        self._session = session
        self._secrets = secrets
        self._timeout_s = timeout_ms / 1000

    async def __call__(self, receiver: Receiver, notice: NotificationIssued) -> Outcome:
        """Make one attempt."""
        assert receiver.url is not None
        assert receiver.secret is not None
        body = webhook_body(notice)
        now_s = wall_ms() // 1000
        signed = headers(notice.notification, self._secrets[receiver.secret], now_s, body)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(URL(receiver.url), body, signed)
        except TimeoutError:
            return Failed("no answer in time")
        except (aiohttp.ClientError, OSError) as error:
            # Its words would name the address.
            return Failed(type(error).__name__)

    async def _post(self, url: URL, body: bytes, signed: Mapping[str, str]) -> Outcome:
        for _ in range(1 + REDIRECTIONS):
            async with self._session.post(
                url, data=body, headers=signed, allow_redirects=False
            ) as answer:
                if answer.status not in REPEATED:
                    retry_after = answer.headers.get("Retry-After")
                    return of_status(answer.status, retry_after, wall_ms() // 1000)
                target = _joined(url, answer.headers.get("Location", ""))
                if target is None:
                    return Refused(f"status {answer.status} to another host")
                url = target
        return Refused("too many redirections")


def _joined(url: URL, location: str) -> URL | None:
    """Return where a redirection leads; None where that is another scheme, host or port."""
    try:
        target = url.join(URL(location))
        same = target.origin() == url.origin()
    except ValueError:
        return None
    return target if location and same else None


@asynccontextmanager
async def open_webhooks(
    secrets: Mapping[str, bytes], timeout_ms: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[Webhooks]:
    """Open a client without memory: no cookies, no proxies or passwords of the environment.

    Parameters
    ----------
    secrets, timeout_ms
        As in :class:`Webhooks`.
    context
        Whose certificates are trusted; None: those that the system trusts.
    """
    connector = aiohttp.TCPConnector(
        # How many connections a receiver has is decided by the dispatcher.
        limit=0,
        # A connection that was kept may have been closed meanwhile, and cost an attempt.
        force_close=True,
        ssl=True if context is None else context,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield Webhooks(session, secrets, timeout_ms)
