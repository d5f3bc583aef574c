"""The notifier on a real broker, with real receivers: kills, standbys, repeats."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from services.notifier.tests.loopback_servers import (
    Answer,
    HookServer,
    Request,
    SmtpServer,
    hang,
    status,
    until,
)
from services.notifier.tests.notices import notice
from services.notifier.tests.notifier_process import KEY, Log, Stable, receivers
from walras_contracts.drains import NotificationIssued
from walras_launcher.kafka import KafkaBroker
from walras_launcher.pytest_plugin import OwnBroker
from walras_notifier.settings import Settings
from walras_notifier.signing import signature
from walras_notifier.wiring import serve
from walras_runtime.clock import wall_ms
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Progress
from walras_runtime.telemetry import Telemetry

pytestmark = pytest.mark.broker


def lasting(number: int, team: str = "vision") -> NotificationIssued:
    """A notice that is needed for minutes."""
    return notice(number, team, deadline_ms=wall_ms() + 600_000)


async def log_on(broker: KafkaBroker) -> Log:
    log = Log(broker.bootstrap)
    await log.create()
    return log


def test_notices_go_from_the_log_to_webhooks_and_mail(
    own_broker: OwnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_broker()
    monkeypatch.setenv("HOOK_KEY", KEY)

    async def run() -> None:
        log, hook, mail = await log_on(broker), HookServer(status(200)), SmtpServer()
        async with hook.running(), mail.running():
            file = tmp_path / "subscriptions.toml"
            file.write_text(
                f'[mail]\nhost = "127.0.0.1"\nport = {mail.port}\nsecurity = "none"\n'
                'from = "walras@example.org"\n'
                '[[receiver]]\nname = "oncall"\nemail = "oncall@example.org"\n'
                '[[receiver.subscription]]\nteam = "speech"\n' + receivers(bot=hook.url),
                "utf-8",
            )
            settings = Settings.read(
                kafka_bootstrap=broker.bootstrap, subscriptions=str(file), mode="live"
            )
            health, telemetry, stop = Health(), Telemetry("notifier"), asyncio.Event()
            running = asyncio.create_task(serve(settings, stop, telemetry, health))
            await log.write([lasting(1)])
            await log.write([lasting(2)], commit=False)
            await log.write([lasting(3, "speech")])
            await until(lambda: len(mail.mails) == 1, "the mail")
            # Three records and three marks of transactions.
            await log.holds(Progress(6))
            assert hook.ids() == ["n1", "n3"]
            request = hook.requests[0]
            sent_s = int(request.headers["walras-timestamp"])
            wanted = signature(KEY.encode(), sent_s, request.body)
            assert request.headers["walras-signature"] == wanted
            assert health.ready
            assert health.faults == {}
            labels = {"kind": "drain_warning", "channel": "webhook"}
            name = "walras_notifications_delivered_total"
            assert telemetry.registry.get_sample_value(name, labels) == 2
            stop.set()
            await running

    asyncio.run(run())


def test_a_kill_between_delivery_and_commit_repeats_the_notice_with_the_same_id(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    broker = own_broker()

    async def run() -> None:
        log = await log_on(broker)

        async def stop_the_broker_first(_: Request) -> Answer:
            # So nothing can be committed behind the delivery that follows.
            os.kill(broker.pid, signal.SIGSTOP)
            return status(200)

        hook = HookServer(stop_the_broker_first, status(200))
        async with (
            hook.running(),
            Stable.opened(broker.bootstrap, tmp_path, receivers(bot=hook.url)) as stable,
        ):
            first = stable.start()
            await first.says('"following"')
            await log.write([lasting(1)])
            try:
                await first.says("notification_delivered")
                first.kill()
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            assert hook.ids() == ["n1"]
            stable.start()
            await until(lambda: len(hook.requests) == 2, "the repetition")
            assert hook.ids() == ["n1", "n1"]
            assert hook.requests[0].body == hook.requests[1].body
            await log.holds(Progress(2))

    asyncio.run(run())


def test_a_kill_loses_nothing_and_repeats_nothing_to_those_who_are_not_behind(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    broker = own_broker()

    async def run() -> None:
        log, good, slow = await log_on(broker), HookServer(status(200)), HookServer(hang)
        text = receivers
        async with (
            good.running(),
            slow.running(),
            Stable.opened(broker.bootstrap, tmp_path, text(good=good.url, slow=slow.url)) as stable,
        ):
            first = stable.start()
            await log.write([lasting(1), lasting(2, "speech")])
            await log.holds(Progress(0, '{"read":3,"behind":{"slow":0}}'))
            assert sorted(good.ids()) == ["n1", "n2"]
            first.kill()
            slow.script = [status(200)]
            second = stable.start()
            await log.write([lasting(3)])
            await log.holds(Progress(5))
            assert sorted(good.ids()) == ["n1", "n2", "n3"]
            # Each team of the slow one has been tried by both.
            assert sorted(slow.ids()) == ["n1", "n1", "n2", "n2", "n3"]
            second.signal(signal.SIGTERM)
            assert await second.exit_code() == 0

    asyncio.run(run())


def test_a_standby_takes_over_and_one_that_was_only_slow_steps_back(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    broker = own_broker()

    async def run() -> None:
        log, hook = await log_on(broker), HookServer(status(200))
        async with (
            hook.running(),
            Stable.opened(broker.bootstrap, tmp_path, receivers(bot=hook.url)) as stable,
        ):
            leader = stable.start()
            await leader.says('"partitions": [0]')
            standby = stable.start()
            await standby.says('"partitions": []')
            await log.write([lasting(1)])
            await log.holds(Progress(2))
            leader.signal(signal.SIGSTOP)
            await standby.says('"partitions": [0]')
            await log.write([lasting(2)])
            await log.holds(Progress(4))
            back = leader.text().count('"following"')
            leader.signal(signal.SIGCONT)
            await leader.says('"following"', back + 1)
            await log.write([lasting(3)])
            await log.holds(Progress(6))
            # What was on its way to the slow one when it was stopped, both may bring.
            assert list(dict.fromkeys(hook.ids())) == ["n1", "n2", "n3"]
            assert hook.ids().count("n1") == hook.ids().count("n3") == 1

    asyncio.run(run())


def test_secrets_and_addresses_are_never_in_the_log(own_broker: OwnBroker, tmp_path: Path) -> None:
    broker = own_broker()

    async def run() -> None:
        log = await log_on(broker)
        hook = HookServer(status(503), None, b"nonsense\r\n\r\n", status(410))
        async with hook.running():
            url = f"{hook.url}?token=s3cr3t"
        refused = receivers(gone=f"{url}&x", bot=url)
        async with (
            hook.running(),
            Stable.opened(
                broker.bootstrap, tmp_path, refused + receivers(live=f"{hook.url}?token=s3cr3t")
            ) as stable,
        ):
            notifier = stable.start(LOG_LEVEL="debug")
            await log.write([lasting(1)])
            await notifier.says("notification_given_up")
            await notifier.says("receiver_failing", 2)
            assert "s3cr3t" not in notifier.text()
            assert KEY not in notifier.text()

    asyncio.run(run())


def test_a_file_that_cannot_be_used_ends_the_start_with_words(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    async def run() -> None:
        text = receivers(bot="http://bot.example.org/?token=s3cr3t")
        async with Stable.opened("nowhere.invalid:9092", tmp_path, text) as stable:
            notifier = stable.start()
            assert await notifier.exit_code() == 2
            assert "receiver bot: url is http://" in notifier.text()
            assert "s3cr3t" not in notifier.text()

    asyncio.run(run())
