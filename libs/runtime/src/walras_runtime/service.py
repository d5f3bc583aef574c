"""The process around stages: arguments, settings, logs, health, signals, leadership."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import structlog

from walras_contracts.topics import Topic, load_topics
from walras_runtime.clock import incarnation
from walras_runtime.collecting import collect_between_steps, collect_less_often
from walras_runtime.errors import FencedError, TopicMismatchError
from walras_runtime.health import Health, serve_health
from walras_runtime.kafka.election import campaign
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.logs import configure_logs
from walras_runtime.settings import ServiceSettings, SettingsError
from walras_runtime.stage import StageSpec
from walras_runtime.telemetry import Telemetry, otlp_processor

EXIT_OK = 0
EXIT_BROKEN = 1
EXIT_USAGE = 2
EXIT_FENCED = 3

S = TypeVar("S", bound=ServiceSettings)
Serve = Callable[[S, asyncio.Event, Telemetry, Health], Awaitable[None]]
logger = structlog.get_logger("walras")


def service_main(settings_class: type[S], build: Callable[[S], StageSpec]) -> None:
    """Run a deciding service until a signal, and exit with a code that says how it ended."""

    async def serve(settings: S, stop: asyncio.Event, telemetry: Telemetry, health: Health) -> None:
        collect_between_steps()
        await run_stages(build(settings), settings, stop, telemetry, health)

    process_main(settings_class, serve)


def process_main(settings_class: type[S], serve: Serve[S]) -> None:
    """Run ``serve`` as a process: 0 stopped, 1 broken, 2 wrong settings, 3 fenced."""
    parser = argparse.ArgumentParser(
        prog=f"walras-{settings_class.SERVICE.replace('_', '-')}",
        description=(settings_class.__doc__ or "").strip(),
        epilog="settings, from the environment:\n" + settings_class.describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check-config", action="store_true", help="check the settings and exit (0 good, 2 not)"
    )
    arguments = parser.parse_args()
    try:
        settings = settings_class.read()
    except SettingsError as error:
        sys.stderr.write(f"{parser.prog}: settings are not usable:\n{error}\n")
        sys.exit(EXIT_USAGE)
    if arguments.check_config:
        sys.stdout.write("settings are usable\n")
        sys.exit(EXIT_OK)
    configure_logs(settings_class.SERVICE, settings.log_level)
    collect_less_often()
    sys.exit(asyncio.run(_supervise(settings, serve)))


async def _supervise(settings: S, serve: Serve[S]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    processor = otlp_processor(settings.otlp_endpoint) if settings.otlp_endpoint else None
    telemetry = Telemetry(
        settings.SERVICE,
        trace_ratio_ppm=settings.trace_ratio_ppm if processor else 0,
        processor=processor,
    )
    health = Health()
    try:
        async with serve_health(health, telemetry.registry, settings.health_port) as port:
            if port is not None:
                logger.info("health_served", port=port)
            await serve(settings, stop, telemetry, health)
    except FencedError as error:
        logger.warning("fenced", why=str(error))
        return EXIT_FENCED
    except TopicMismatchError as error:
        logger.error("topics_differ", why=str(error))
        return EXIT_USAGE
    except SettingsError as error:
        logger.error("settings_not_usable", why=str(error))
        return EXIT_USAGE
    except Exception:
        # The last line of defence: say what broke, then end; the supervisor starts it again.
        logger.exception("broken")
        return EXIT_BROKEN
    finally:
        telemetry.close()
    return EXIT_OK


async def run_stages(
    spec: StageSpec,
    settings: ServiceSettings,
    stop: asyncio.Event,
    telemetry: Telemetry,
    health: Health,
    *,
    topics: Mapping[str, Topic] | None = None,
) -> None:
    """Run the stages that this replica is to run: its share of the partitions, or the lead.

    Raises
    ------
    TopicMismatchError
        The broker's topics are not those of the registry.
    SettingsError
        This replica's share has no partition: it would run and do nothing.
    FencedError
        Another process took over.
    """
    topics = load_topics(settings.partitions) if topics is None else topics
    names = {
        *(source.topic for source in spec.inputs),
        *spec.outputs,
        spec.state_topic,
        "claims",
        "dead_letter",
    }
    await check_topics(
        settings.kafka_bootstrap, {name: topics[name] for name in topics if name in names}
    )
    me = incarnation()

    def runner(partition: int) -> StepRunner:
        return StepRunner(
            spec,
            partition,
            topics,
            settings,
            incarnation=me,
            telemetry=telemetry,
            health=health,
        )

    if spec.spread:
        count = topics[spec.state_topic].partitions
        mine = [p for p in range(count) if p % settings.replica_count == settings.replica_index]
        if not mine:
            raise SettingsError(
                f"WALRAS_REPLICA_INDEX: {settings.replica_index} of {settings.replica_count} "
                f"replicas has no share of {count} partitions"
            )
        try:
            async with asyncio.TaskGroup() as group:
                for partition in mine:
                    group.create_task(runner(partition).run(stop))
        except ExceptionGroup as failed:
            # Not `except*`: what is raised inside that comes out wrapped in a group again.
            fenced, other = failed.split(FencedError)
            if fenced is None or other is not None:
                raise
            raise FencedError(str(fenced.exceptions[0])) from failed
        return
    async with campaign(
        settings.kafka_bootstrap,
        topics["claims"].full_name,
        spec.service,
        session_ms=settings.election_session_ms,
    ) as elected:
        logger.info("standing_by")
        waiting = asyncio.create_task(elected.wait())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stopping.cancel()
        if not stop.is_set():
            await runner(0).run(stop)
