"""Wires the notifier: follows the topic of notices, delivers by webhook and e-mail."""

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Final

import structlog

from walras_contracts.drains import NotificationIssued
from walras_contracts.topics import load_topics
from walras_notifier.adapters.configuration import Configuration
from walras_notifier.adapters.courier import Courier, Send
from walras_notifier.adapters.mailing import open_mailer
from walras_notifier.adapters.metrics import Metrics
from walras_notifier.adapters.posting import open_webhooks
from walras_notifier.dispatching import Dispatcher
from walras_notifier.settings import Settings
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Followed, follow
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.telemetry import Telemetry

TOPIC: Final = NotificationIssued.TOPIC
LETTERS: Final = "dead_letter"
SPARE_THREADS: Final = 8
"""Names are looked up in threads; one that hangs must not keep the others waiting."""

logger = structlog.get_logger("walras")


def _jitter(most: int) -> int:
    """Return a random integer from 0 to ``most``."""
    return secrets.randbelow(most + 1)


async def _open_channels(
    stack: AsyncExitStack, configuration: Configuration, settings: Settings, health: Health
) -> dict[str, Send]:
    timeout_ms = settings.attempt_timeout_ms
    channels: dict[str, Send] = {
        "webhook": await stack.enter_async_context(open_webhooks(configuration.secrets, timeout_ms))
    }
    server = configuration.subscriptions.mail
    if server is not None:
        password = None if server.password is None else configuration.secrets[server.password]
        channels["email"] = await stack.enter_async_context(
            open_mailer(server, password, timeout_ms=timeout_ms, health=health)
        )
    return channels


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Deliver notices until stopped.

    Raises
    ------
    TopicMismatchError
        The broker's topics are not those of the registry.
    """
    configuration = settings.configuration()
    receivers = configuration.subscriptions.receiver
    if not receivers:
        logger.warning("nobody_is_subscribed")
    topics = load_topics(settings.partitions)
    await check_topics(settings.kafka_bootstrap, {name: topics[name] for name in (TOPIC, LETTERS)})
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(len(receivers) + SPARE_THREADS, thread_name_prefix="look-up")
    )
    dispatcher = Dispatcher(receivers, settings.policy(), _jitter)
    async with AsyncExitStack() as stack:
        courier = Courier(
            dispatcher,
            await _open_channels(stack, configuration, settings, health),
            Metrics(telemetry.registry, dispatcher.open_deliveries),
            health,
            mode=settings.mode,
            give_up_after_ms=settings.give_up_after_ms,
        )
        followed = Followed(
            settings.kafka_bootstrap,
            settings.SERVICE,
            topics[TOPIC],
            topics[LETTERS],
            settings.election_session_ms,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(followed, courier, stop, health))
            group.create_task(courier.run(stop))
