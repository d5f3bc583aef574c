"""Webhooks to a real server on loopback."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from services.notifier.tests.loopback_servers import (
    Answer,
    HookServer,
    Request,
    hang,
    server_context,
    status,
    trusting_context,
)
from services.notifier.tests.notices import notice
from walras_notifier.adapters.posting import open_webhooks
from walras_notifier.outcomes import Delivered, Failed, Outcome, Refused
from walras_notifier.signing import signature
from walras_notifier.subscriptions import EVERYBODY, Receiver, Subscription
from walras_runtime.clock import wall_ms

SECRET = b"0123456789abcdef"


def receiver(url: str) -> Receiver:
    everybody = (Subscription(team=EVERYBODY),)
    return Receiver(name="bot", url=url, secret="KEY", subscription=everybody)


def outcome_of(
    *script: Answer | Callable[[Request], Awaitable[Answer]], timeout_ms: int = 10_000
) -> tuple[Outcome, list[Request]]:
    """Make one attempt at a server that answers so."""

    async def run() -> tuple[Outcome, list[Request]]:
        server = HookServer(*script)
        async with server.running(), open_webhooks({"KEY": SECRET}, timeout_ms) as webhooks:
            return await webhooks(receiver(server.url), notice()), server.requests

    return asyncio.run(run())


def test_a_notice_is_posted_signed_with_its_id() -> None:
    before_s = wall_ms() // 1000
    outcome, (request,) = outcome_of(status(204))
    assert outcome == Delivered()
    assert request.line == "POST /hook HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["walras-notification"] == "n1"
    sent_s = int(request.headers["walras-timestamp"])
    assert before_s <= sent_s <= wall_ms() // 1000
    assert request.headers["walras-signature"] == signature(SECRET, sent_s, request.body)
    assert json.loads(request.body)["deadline"] == "2026-01-01T12:02:00.000Z"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (status(500), Failed("status 500")),
        (status(503, Retry_After="7"), Failed("status 503", 7_000)),
        (status(429, Retry_After="nonsense"), Failed("status 429")),
        (status(410), Refused("status 410")),
        (status(400), Refused("status 400")),
        (None, Failed("ServerDisconnectedError")),
        (b"SMTP 220 hello?\r\n\r\n", Failed("ClientResponseError")),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, Failed("ClientResponseError")),
        # The status is what counts: what follows it is not waited for.
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nx", Delivered()),
    ],
)
def test_the_answer_decides(answer: Answer, wanted: Outcome) -> None:
    outcome, requests = outcome_of(answer)
    assert outcome == wanted
    assert len(requests) == 1


def test_a_receiver_that_hangs_is_left_after_a_time() -> None:
    assert outcome_of(hang, timeout_ms=200)[0] == Failed("no answer in time")


def test_nobody_at_the_address_is_a_failure() -> None:
    async def run() -> list[Outcome]:
        server = HookServer(status(200))
        async with server.running():
            gone = server.url
        async with open_webhooks({"KEY": SECRET}, 5_000) as webhooks:
            return [
                await webhooks(receiver(gone), notice()),
                await webhooks(receiver("https://no-such-host.invalid/"), notice()),
            ]

    outcomes = asyncio.run(run())
    assert all(isinstance(outcome, Failed) for outcome in outcomes)
    assert "invalid" not in str(outcomes)


def test_a_redirection_within_the_host_is_followed_with_the_same_request() -> None:
    outcome, requests = outcome_of(status(307, Location="/elsewhere"), status(200))
    assert outcome == Delivered()
    assert [r.line for r in requests] == ["POST /hook HTTP/1.1", "POST /elsewhere HTTP/1.1"]
    assert requests[0].body == requests[1].body
    for name in ("walras-notification", "walras-timestamp", "walras-signature"):
        assert requests[0].headers[name] == requests[1].headers[name]


@pytest.mark.parametrize("code", [307, 308])
def test_a_redirection_to_another_host_or_port_is_not_followed(code: int) -> None:
    async def run() -> tuple[Outcome, list[Request]]:
        other = HookServer(status(200))
        async with other.running():
            server = HookServer(status(code, Location=other.url))
            async with server.running(), open_webhooks({"KEY": SECRET}, 5_000) as webhooks:
                return await webhooks(receiver(server.url), notice()), other.requests

    outcome, requests = asyncio.run(run())
    assert outcome == Refused(f"status {code} to another host")
    assert requests == []


@pytest.mark.parametrize("location", ["", "http://[", "https://localhost/x", "//evil.invalid/"])
def test_a_redirection_to_nowhere_is_refused(location: str) -> None:
    outcome, requests = outcome_of(status(308, Location=location))
    assert outcome == Refused("status 308 to another host")
    assert len(requests) == 1


def test_redirections_without_end_are_refused() -> None:
    outcome, requests = outcome_of(status(307, Location="/hook"))
    assert outcome == Refused("too many redirections")
    assert len(requests) == 4


def test_a_redirection_that_asks_for_another_request_is_refused() -> None:
    outcome, requests = outcome_of(status(302, Location="/hook"))
    assert (outcome, len(requests)) == (Refused("status 302"), 1)


def test_over_tls_a_certificate_that_nobody_vouches_for_is_a_failure() -> None:
    async def run() -> list[Outcome]:
        server = HookServer(status(200))
        async with server.running(server_context()):
            url = server.url.replace("http:", "https:")
            outcomes = []
            for context in (trusting_context(), None):
                async with open_webhooks({"KEY": SECRET}, 5_000, context) as webhooks:
                    outcomes.append(await webhooks(receiver(url), notice()))
            return outcomes

    assert asyncio.run(run()) == [Delivered(), Failed("ClientConnectorCertificateError")]
