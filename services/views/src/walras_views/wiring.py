"""Wires the views: a Faust app over three topics, tables without changelogs, and the web."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import faust
import structlog

from walras_contracts.topics import load_topics
from walras_runtime.clock import incarnation
from walras_runtime.faust.app_factory import FaustOptions, create_app
from walras_runtime.faust.local_table import local_table
from walras_runtime.faust.running import run_app
from walras_runtime.faust.safe_agent import Tally, safe_agent
from walras_runtime.health import Health
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.telemetry import Telemetry
from walras_views.handlers import HANDLERS, fold
from walras_views.settings import Settings
from walras_views.state import Tables
from walras_views.web import serve_board

TOPICS: Final = ("cycles", "prices", "balances", "quotas")
REPORT_S: Final = 1.0

logger = structlog.get_logger("walras")


def build(settings: Settings, directory: Path) -> tuple[faust.App, Tables, Tally]:
    """Return the app, its tables and the tally of what it read; nothing is started."""
    app = create_app(
        FaustOptions(
            name=settings.SERVICE,
            incarnation=incarnation(),
            bootstrap=settings.kafka_bootstrap,
            directory=directory,
        )
    )
    tables = Tables(
        cycles=local_table(app, "cycles"),
        prices=local_table(app, "prices"),
        wallets=local_table(app, "wallets"),
        quotas=local_table(app, "quotas"),
        windows=local_table(app, "windows"),
        history_cycles=settings.history_cycles,
        window_ms=settings.window_s * 1000,
    )
    tally = Tally()
    topics = load_topics(settings.partitions)
    for name in TOPICS:
        safe_agent(
            app,
            name,
            topics[name].full_name,
            partial(fold, tables),
            wanted=frozenset(HANDLERS),
            tally=tally,
        )
    return app, tables, tally


async def _report(tally: Tally, health: Health, stop: asyncio.Event) -> None:
    """Turn the health red when records could not be folded."""
    while not stop.is_set():
        faults = tally.faults()
        if faults:
            health.fail("records", str(faults))
        health.details["records"] = str(
            {f"{topic}: {fate.value}": n for (topic, fate), n in sorted(tally.counts.items())}
        )
        try:
            await asyncio.wait_for(stop.wait(), REPORT_S)
        except TimeoutError:
            continue


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Fold and serve until stopped.

    Raises
    ------
    TopicMismatchError
        The broker's topics are not those of the registry.
    FaustCrashedError
        The app failed.
    """
    del telemetry
    topics = load_topics(settings.partitions)
    await check_topics(settings.kafka_bootstrap, {name: topics[name] for name in TOPICS})
    with tempfile.TemporaryDirectory(prefix="walras-views-") as directory:
        app, tables, tally = build(settings, Path(directory))
        async with serve_board(tables, settings.http_host, settings.http_port) as port:
            logger.info("board_served", port=port)
            health.details["board_port"] = str(port)
            reporting = asyncio.create_task(_report(tally, health, stop))
            try:
                await run_app(app, stop, started=partial(setattr, health, "ready", True))
            finally:
                reporting.cancel()
