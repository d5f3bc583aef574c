"""A broker that is away for longer than the lease timeout: nothing that runs may notice."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos_drains.history import History, read_history
from tests.chaos_drains.leases import ledgers
from tests.chaos_drains.plan import Plan
from tests.chaos_drains.run import check_clock, clocks_apart_ms, opened
from tests.chaos_drains.session import Session
from tests.chaos_drains.terms import SUPPLY, Times
from walras_contracts.capacity import NodePublished
from walras_contracts.drains import VacateRequested
from walras_contracts.work import LeaseState, LeaseStatusChanged
from walras_launcher.kafka import KafkaBroker
from walras_runtime.clock import wall_ms

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Outage:
    """What was there when all was well again, some time behind the outage, and at the end."""

    behind: History
    back_ms: int
    """When the broker answered again, wall clock."""
    last: History


async def run_outage(
    broker: KafkaBroker,
    folder: Path,
    times: Times,
    away_ms: int,
    say: Callable[[str], None],
) -> Outage:
    """Let jobs run, take the broker away, give it back, and let one and a half timeouts pass.

    Raises
    ------
    ChaosError
        A process broke, or something did not come in time.
    """
    clock = clocks_apart_ms()
    async with opened(Plan(0, 0, (), still=True), broker, folder, times, say) as session:
        await session.begin()
        await session.until(lambda: len(session.seen.running) == SUPPLY, "all jobs to run")
        say(f"{SUPPLY} jobs run; the broker is away for {away_ms} ms")
        await session.kill_broker()
        await passed(session, away_ms)
        await session.bring_back_broker()
        back_ms = wall_ms()
        await session.caught_up()
        say("it is back, and steps are done")
        for _ in range(3 * times.lease_timeout_ms // (2 * times.interval_ms)):
            await session.steps(1)
        behind = await read_history(broker.bootstrap, folder / "evidence", clock, times)
        say("all that runs is asked to end")
        await session.finish()
        await session.crew.stop()
    check_clock(clock)
    last = await read_history(broker.bootstrap, folder / "evidence", clock, times)
    return Outage(behind, back_ms, last)


async def passed(session: Session, duration_ms: int) -> None:
    """Let time pass, by the monotonic clock, while no process ends."""
    until = time.monotonic() + duration_ms / 1000
    while time.monotonic() < until:
        session.crew.look()
        await asyncio.sleep(POLL_S)


def released(outage: Outage) -> list[str]:
    """Return what an outage must not do: lose a node, end what runs, or ask it to leave."""
    history = outage.behind
    faults = [f"node {node.node} was lost" for _, node in history.of(NodePublished) if node.lost]
    faults += [
        f"{lease.lease} of {lease.job} ended"
        for ledger, _ in ledgers(history)
        for lease in ledger.ended
    ]
    faults += [f"{event.lease} was asked to leave" for _, event in history.of(VacateRequested)]
    faults += [
        f"{event.lease} is {event.state.value}"
        for _, event in history.of(LeaseStatusChanged)
        if event.state in {LeaseState.FREED, LeaseState.STUCK}
    ]
    lasted = history.times.lease_timeout_ms
    return faults + [
        f"process {life.pid} of {life.lease} did not live on"
        for life in history.lives
        if life.last_ms < outage.back_ms + lasted
    ]
