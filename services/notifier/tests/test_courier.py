"""The courier at work: real receivers on loopback, no broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from prometheus_client import CollectorRegistry

from services.notifier.tests.loopback_servers import (
    Answer,
    HookServer,
    Request,
    hang,
    status,
    until,
)
from services.notifier.tests.notices import notice
from walras_contracts.drains import NoticeKind, NotificationIssued
from walras_notifier.adapters.courier import Courier, Send
from walras_notifier.adapters.metrics import Metrics
from walras_notifier.adapters.posting import open_webhooks
from walras_notifier.core import Policy
from walras_notifier.dispatching import Dispatcher
from walras_notifier.outcomes import Delivered, Outcome
from walras_notifier.subscriptions import EVERYBODY, Receiver, Subscription
from walras_runtime.clock import wall_ms
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Progress
from walras_runtime.records import Record

KEY = b"0123456789abcdef"
DAY_MS = 86_400_000
LABELS = {"kind": "drain_warning", "channel": "webhook"}


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is not waited for in the end."""
    monkeypatch.setattr("walras_notifier.adapters.courier.GRACE_S", 0.05)


def bot(name: str, url: str) -> Receiver:
    everybody = (Subscription(team=EVERYBODY),)
    return Receiver(name=name, url=url, secret="KEY", subscription=everybody)


class Bench:
    """A courier and what it tells; notices are handed to it as the log would."""

    def __init__(self, receivers: list[Receiver], channels: dict[str, Send]) -> None:
        policy = Policy(first_backoff_ms=20, most_backoff_ms=100)
        self.dispatcher = Dispatcher(receivers, policy, lambda most: most)
        self.health = Health()
        self.registry = CollectorRegistry()
        metrics = Metrics(self.registry, self.dispatcher.open_deliveries)
        self.courier = Courier(
            self.dispatcher,
            channels,
            metrics,
            self.health,
            mode="live",
            give_up_after_ms=DAY_MS,
        )
        self.next = 0

    def take(self, said: NotificationIssued) -> None:
        record = Record(
            "notifications",
            0,
            self.next,
            said.record_key(),
            said.TYPE,
            said.payload(),
            said,
        )
        self.next += 1
        self.courier.take(record, wall_ms())

    def metric(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(f"walras_notifications_{name}", labels)
        return found or 0.0

    async def idle(self) -> None:
        await until(lambda: self.courier.progress(0) == Progress(self.next), "all is over")


def lasting(number: int, team: str = "vision") -> NotificationIssued:
    """A notice that is needed for minutes."""
    return notice(number, team, deadline_ms=wall_ms() + 600_000)


@asynccontextmanager
async def bench(*servers: HookServer, timeout_ms: int = 10_000) -> AsyncIterator[Bench]:
    """A courier with a webhook to each server, at work until the block is left."""
    receivers = [bot(f"r{n}", server.url) for n, server in enumerate(servers)]
    stop = asyncio.Event()
    async with open_webhooks({"KEY": KEY}, timeout_ms) as webhooks:
        made = Bench(receivers, {"webhook": webhooks})
        running = asyncio.create_task(made.courier.run(stop))
        made.courier.begin(0, Progress(0))
        try:
            yield made
        finally:
            await made.courier.end()
            stop.set()
            await running


def test_a_receiver_that_fails_at_first_gets_the_same_notice_again() -> None:
    async def run() -> None:
        server = HookServer(status(500), None, status(429, Retry_After="0"), status(200))
        async with server.running(), bench(server) as made:
            made.take(lasting(1))
            await made.idle()
            assert server.ids() == ["n1"] * 4
            assert len({request.body for request in server.requests}) == 1
            await until(lambda: made.metric("delivered_total", **LABELS) == 1, "the count")
            assert made.metric("retried_total", **LABELS) == 3
            assert made.health.details["failing_receivers"] == ""

    asyncio.run(run())


def test_what_is_refused_is_given_up_counted_and_said() -> None:
    async def run() -> None:
        server = HookServer(status(410), status(200))
        async with server.running(), bench(server) as made:
            made.take(lasting(1))
            made.take(lasting(2))
            await made.idle()
            assert server.ids() == ["n1", "n2"]
        assert made.metric("failed_total", **LABELS, reason="refused") == 1
        assert made.metric("delivered_total", **LABELS) == 1

    with structlog.testing.capture_logs() as logs:
        asyncio.run(run())
    (line,) = [log for log in logs if log["event"] == "notification_given_up"]
    assert line["notification"] == "n1"
    assert (line["reason"], line["last"]) == ("refused", "status 410")
    assert (line["receiver"], line["team"]) == ("r0", "vision")


def test_an_advisory_that_is_late_is_not_sent_but_given_up() -> None:
    async def run() -> None:
        server = HookServer(status(200))
        late = notice(1, kind=NoticeKind.DRAIN_ADVISORY, deadline_ms=None, expires_ms=wall_ms() - 1)
        async with server.running(), bench(server) as made:
            made.take(late)
            await made.idle()
            assert server.requests == []
        labels = {"kind": "drain_advisory", "channel": "webhook", "reason": "expired"}
        assert made.metric("failed_total", **labels) == 1

    asyncio.run(run())


def test_a_receiver_that_hangs_holds_up_nobody_else() -> None:
    async def run() -> None:
        slow, good = HookServer(hang), HookServer(status(200))
        async with slow.running(), good.running(), bench(slow, good) as made:
            for number in range(20):
                made.take(lasting(number, f"team-{number % 7}"))
            await until(lambda: len(good.requests) == 20, "all notices at the good one")
            assert made.courier.progress(0).offset == 0
            assert made.metric("open") >= 20
            # Its few connections are all that the slow one occupies.
            assert len(slow.requests) == 4

    asyncio.run(run())


def test_each_team_of_a_receiver_gets_its_notices_in_order() -> None:
    async def run() -> None:
        server = HookServer(*(status(code) for code in (500, 503, 200, 500, 429, 200, 502, 200)))
        async with server.running(), bench(server) as made:
            for number in range(12):
                made.take(lasting(number, f"team-{number % 3}"))
            await made.idle()
        for team in range(3):
            mine = [f"n{n}" for n in range(12) if n % 3 == team]
            came = [i for i in server.ids() if i in mine]
            firsts = list(dict.fromkeys(came))
            assert firsts == mine
            assert came == sorted(came, key=mine.index)

    asyncio.run(run())


def test_what_is_under_way_at_the_end_is_broken_off_and_made_again_afterwards() -> None:

    async def run() -> None:
        server = HookServer(hang, status(200))
        async with server.running(), bench(server) as made:
            made.take(lasting(1))
            await until(lambda: len(server.requests) == 1, "the first attempt")
            await made.courier.end()
            assert made.courier.progress(0) == Progress(0, '{"read":1,"behind":{"r0":0}}')
            assert made.courier.resume(0) == 1
            await made.idle()
            assert server.ids() == ["n1", "n1"]

    asyncio.run(run())


def test_what_is_nearly_done_at_the_end_may_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walras_notifier.adapters.courier.GRACE_S", 60.0)

    async def run() -> None:
        asked, told = asyncio.Event(), asyncio.Event()

        async def answer_when_told(_: Request) -> Answer:
            asked.set()
            await told.wait()
            return status(200)

        server = HookServer(answer_when_told)
        async with server.running(), bench(server) as made:
            made.take(lasting(1))
            await asked.wait()
            ending = asyncio.create_task(made.courier.end())
            await asyncio.sleep(0)
            told.set()
            await ending
            assert made.courier.progress(0) == Progress(1)

    asyncio.run(run())


def test_a_notice_that_breaks_its_channel_holds_up_no_other_and_its_words_are_not_told() -> None:
    async def run() -> None:
        brought: list[str] = []

        async def channel(_: Receiver, said: NotificationIssued) -> Outcome:
            if said.notification == "n1" and not brought:
                raise KeyError("s3cr3t")
            brought.append(said.notification)
            return Delivered()

        stop = asyncio.Event()
        made = Bench([bot("r0", "https://bot.invalid/s3cr3t")], {"webhook": channel})
        running = asyncio.create_task(made.courier.run(stop))
        made.courier.begin(0, Progress(0))
        made.take(lasting(1, "vision"))
        made.take(lasting(2, "speech"))
        await made.idle()
        assert sorted(brought) == ["n1", "n2"]
        await made.courier.end()
        stop.set()
        await running
        assert made.metric("retried_total", **LABELS) == 1
        assert made.metric("delivered_total", **LABELS) == 2

    with structlog.testing.capture_logs() as logs:
        asyncio.run(run())
    assert any(log["event"] == "attempt_broken" for log in logs)
    assert "s3cr3t" not in str(logs)


@pytest.mark.parametrize("when", ["at work", "at the end"])
def test_an_error_in_what_is_decided_about_an_attempt_ends_the_courier(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walras_notifier.adapters.courier.GRACE_S", 60.0)

    async def run() -> None:
        asked, told = asyncio.Event(), asyncio.Event()

        async def channel(_: Receiver, said: NotificationIssued) -> Outcome:
            asked.set()
            await told.wait()
            return Delivered()

        def broken(*_: object) -> None:
            raise InvariantBrokenError("lost count")

        made = Bench([bot("r0", "https://bot.invalid/")], {"webhook": channel})
        monkeypatch.setattr(made.dispatcher, "finish", broken)
        running = asyncio.create_task(made.courier.run(asyncio.Event()))
        made.courier.begin(0, Progress(0))
        made.take(lasting(1))
        await asked.wait()
        ending = asyncio.create_task(made.courier.end()) if when == "at the end" else None
        await asyncio.sleep(0)
        told.set()
        if ending is not None:
            with pytest.raises(InvariantBrokenError, match="lost count"):
                await ending
        await until(running.done, "the end of the courier")
        with pytest.raises(InvariantBrokenError, match="lost count"):
            await running

    asyncio.run(run())


def test_too_many_open_deliveries_are_told_as_a_fault() -> None:
    made = Bench([bot("r0", "https://bot.invalid/")], {})
    made.dispatcher._policy = Policy(most_open=1)
    made.courier.begin(0, Progress(0))
    assert not made.courier.full()
    made.take(lasting(1))
    assert made.courier.full()
    assert "backlog" in made.health.faults
