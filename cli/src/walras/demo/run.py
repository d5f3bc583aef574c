"""One run of the demo: broker, Redis, services, replay, report."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from walras.board import Board, BoardState
from walras.demo.driver import ReplayDriver
from walras.demo.feed import BoardFeed
from walras.demo.fresh import LOGS, expect_no_topics, remove_results
from walras.demo.log_records import stream_topic
from walras.demo.policies import AS_IN_THE_SCENARIO, Policies, with_policies
from walras.demo.services import replay_services
from walras.interrupts import handlers_kept, not_to_be_interrupted
from walras.processes import Supervisor
from walras.report.build import build_report
from walras.report.context import context_of
from walras.report.write import write_report
from walras.scenario import load_scenario
from walras.trace import Replay, load_window
from walras_contracts.topics import load_topics
from walras_launcher import open_broker, open_redis
from walras_launcher.ports import PortReservation
from walras_launcher.running import Broker, Redis
from walras_runtime.kafka.topics_admin import create_topics

REPORTED = (
    "accounts.requests",
    "accounts",
    "inventory",
    "demand",
    "demand.rejected",
    "queue",
    "supply",
    "nodes",
    "prices",
    "quotas",
    "cycles",
    "leases",
    "vacate",
    "job.status",
    "placement.figures",
    "lease.status",
    "drain.requests",
    "drain.sessions",
    "drain.status",
    "usage",
    "charges",
    "ledger",
    "balances",
    "budgets",
    "fleet.done",
    "dead_letter",
)

Say = Callable[[str], None]


@dataclass(slots=True)
class Running:
    """What a disturbance may lay hands on while a replay runs."""

    broker: Broker
    redis: Redis
    supervisor: Supervisor
    replay: Replay
    cycle: int = 0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to replay, and where the report goes.

    ``policies`` change terms of the scenario; ``replicas`` gives single leaders hot standbys. The
    rest is for tests: ``disturb`` runs beside the replay, ``inspect`` after it while all still
    runs; ``copies`` tells each event so often; ``own_servers`` passes over servers that run
    already, ``broker`` opens another broker, and without ``reported`` nothing is read for a report.
    """

    scenario: Path
    out: Path
    hours: int = 24
    seed: int = 1
    board: bool = True
    policies: Policies = AS_IN_THE_SCENARIO
    replicas: dict[str, int] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    disturb: Callable[[Running], Coroutine[Any, Any, None]] | None = None
    inspect: Callable[[Running], Awaitable[None]] | None = None
    own_servers: bool = False
    copies: int = 1
    reported: bool = True
    broker: Callable[[], Broker] | None = None
    election_session_ms: int = 6_000


def run_demo(options: DemoOptions, say: Say) -> dict[str, Any]:
    """Run the demo and return its report; everything started is stopped again.

    Parameters
    ----------
    options
        What to run.
    say
        Called with a line for each long step.

    Raises
    ------
    LogNotEmptyError
        The broker holds topics of the market already.
    """
    started = time.monotonic()
    say(f"loading {options.scenario.name}: {options.hours} h, seed {options.seed}")
    window = load_window(load_scenario(options.scenario), options.hours, options.seed)
    replay = with_policies(window, options.policies)
    remove_results(options.out)
    with contextlib.ExitStack() as stack:
        stack.enter_context(handlers_kept())
        views_port = stack.enter_context(PortReservation()).port
        supervisor = Supervisor(
            replay_services(
                replay.interval_ms,
                views_port,
                replicas=options.replicas,
                without=options.without,
            ),
            {
                "WALRAS_MODE": "replay",
                "WALRAS_PARTITIONS": str(replay.scenario.log.partitions),
                "WALRAS_ELECTION_SESSION_MS": str(options.election_session_ms),
            },
            options.out / LOGS,
        )
        stack.callback(supervisor.stop)
        stack.callback(not_to_be_interrupted)
        # The services import what they need while the broker starts.
        supervisor.prepare()
        say("starting Apache Kafka and Redis (the first time this takes about 20 s)")
        broker = stack.enter_context(
            options.broker() if options.broker else open_broker(own=options.own_servers)
        )
        redis = stack.enter_context(open_redis(own=options.own_servers))
        # Last in, first out: the services end while their broker still answers.
        stack.callback(supervisor.stop)
        stack.callback(not_to_be_interrupted)
        say(f"{broker.describe()}; {redis.describe()}")
        running = Running(broker, redis, supervisor, replay)
        return asyncio.run(_replay(options, running, views_port, say, started))


async def _replay(
    options: DemoOptions, running: Running, views_port: int, say: Say, started: float
) -> dict[str, Any]:
    replay = running.replay
    topics = load_topics(replay.scenario.log.partitions)
    bootstrap = running.broker.bootstrap
    await expect_no_topics(bootstrap, topics)
    await create_topics(bootstrap, topics)
    running.supervisor.start(
        {"WALRAS_KAFKA_BOOTSTRAP": bootstrap, "WALRAS_REDIS_URL": running.redis.url}
    )
    state = BoardState(
        title=replay.scenario.title,
        seed=replay.seed,
        hours=replay.hours,
        total_cycles=replay.cycles,
    )
    began: list[float] = []

    def on_step(number: int, market_time_ms: int) -> None:
        if not began:
            began.append(time.monotonic())
        running.cycle = number
        state.phase = "replaying"
        state.cycle, state.market_time_ms = number, market_time_ms
        state.elapsed_s = time.monotonic() - began[0]
        board.update()

    def look() -> None:
        running.supervisor.look()
        board.update()

    async with contextlib.AsyncExitStack() as stack:
        board = stack.enter_context(Board(state))
        if options.board and "views" not in options.without:
            await stack.enter_async_context(BoardFeed(views_port, state))
        disturbing = (
            asyncio.create_task(options.disturb(running)) if options.disturb is not None else None
        )
        await ReplayDriver(bootstrap, topics, replay, options.copies).run(on_step, look)
        replay_s = time.monotonic() - began[0]
        if disturbing is not None:
            disturbing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await disturbing
        state.phase = "reporting"
        board.update()
    if options.inspect is not None:
        await options.inspect(running)
    exits = list(running.supervisor.exits)
    running.supervisor.stop()
    if not options.reported:
        return {}
    say("reading the log for the report")
    context = context_of(
        replay,
        run={
            "broker": running.broker.describe(),
            "redis": running.redis.describe(),
            "replay_seconds": round(replay_s),
            "seconds_to_first_step": round(began[0] - started),
            "process_restarts": len(exits),
        },
    )
    records = {name: stream_topic(bootstrap, topics[name]) for name in REPORTED}
    report = await asyncio.to_thread(build_report, context, records)
    for path in write_report(options.out, report):
        say(f"wrote {path}")
    return report
