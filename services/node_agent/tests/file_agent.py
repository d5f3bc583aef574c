"""The real agent as a process, with a log of two files in the place of a broker.

It reads records from ``inbox`` (one JSON object a line: topic, lease, event or null), as a table
first and then as they come, and appends what it tells to ``outbox``. While a file ``away`` is there
the log takes nothing. Settings come from the environment, as ever.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from walras_contracts.drains import DrainCommanded
from walras_contracts.event import Event
from walras_contracts.work import LeaseGranted, LeaseStatusChanged
from walras_node_agent.agent.log_records import Change, Reached, table_of
from walras_node_agent.agent.outgoing import Outgoing
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.agent.standing import BEHIND
from walras_node_agent.host.opening import opened
from walras_node_agent.host.working import Agent
from walras_runtime.clock import incarnation
from walras_runtime.health import Health
from walras_runtime.logs import configure_logs
from walras_runtime.settings import SettingsError

MODELS: dict[str, type[Event]] = {
    model.TOPIC: model for model in (LeaseGranted, DrainCommanded, LeaseStatusChanged)
}
POLL_S = 0.02


def parsed(line: str) -> Change:
    document = json.loads(line)
    event = document["event"]
    model = MODELS[document["topic"]]
    found = None if event is None else model.model_validate(event)
    return Change(document["topic"], document["lease"], found)


def latest(changes: Sequence[Change]) -> list[Change]:
    by_key = {(change.topic, change.lease): change for change in changes}
    return [change for change in by_key.values() if change.event is not None]


def whole_lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


async def read(agent: Agent, inbox: Path, stop: asyncio.Event) -> None:
    """Hand the inbox over, as a table first, and again where the agent was silent; lines count."""
    done = 0
    while not stop.is_set():
        lines = whole_lines(inbox)
        if done == 0 or agent.standing.wants_table:
            began, done = agent.standing.began_to_read(), len(lines)
            agent.inbox.put(table_of(latest([*map(parsed, lines)]), {"leases": done}))
            agent.standing.read_table(began, done - BEHIND)
            agent.standing.read_leases(done)
        for line in lines[done:]:
            agent.inbox.put(parsed(line))
        if len(lines) > done:
            done = len(lines)
            agent.inbox.put(Reached({"leases": done}))
            agent.standing.read_leases(done)
        await asyncio.sleep(POLL_S)


async def publish(agent: Agent, directory: Path, stop: asyncio.Event) -> None:
    away, outbox = directory / "away", directory / "outbox"
    while not stop.is_set():
        await asyncio.sleep(POLL_S)
        if away.exists():
            continue
        events = agent.keeping.spool.oldest(100)
        heartbeat = agent.pulse.take()
        told: list[Outgoing] = [event for _, event in events]
        if heartbeat is not None:
            told.append(heartbeat)
        with outbox.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(event.dump()) + "\n" for event in told)
        if heartbeat is not None:
            agent.heard()
        if events:
            agent.keeping.acknowledged(events[-1][0] + 1)


async def work(settings: AgentSettings, directory: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    health = Health()
    with opened(settings, incarnation(), health) as agent:
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(stop))
            group.create_task(read(agent, directory / "inbox", stop))
            group.create_task(publish(agent, directory, stop))


def main(directory: str) -> None:
    configure_logs("node_agent", "info")
    try:
        settings = AgentSettings.read()
        asyncio.run(work(settings, Path(directory)))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
