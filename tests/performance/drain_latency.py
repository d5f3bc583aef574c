"""How long a drain takes beyond the job's own time: a real agent, real jobs, a real broker.

Each job saves for a time that is known and says itself how long it took. What is left of the time
between the command and the freed devices is the platform's: hearing of it, warning, noticing that
the job is gone, reading its devices twice.
"""

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.performance.agent_log import AgentLog
from tests.performance.agent_process import AgentProcess
from tests.performance.agent_records import TEAM, granted, must_leave, over
from tests.performance.drain_job import EVIDENCE
from tests.performance.outside import BenchError
from tests.performance.samples import p99, percentile
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
)

JOB: Final = Path(__file__).with_name("drain_job.py")
WAVE: Final = 10
"""So many jobs run at a time; their drains begin one after the other."""
SAVE_MS: Final = (200, 1_500)
APART_MS: Final = (50, 400)
"""Between the commands of two drains of a wave."""
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of times, ms; ``p99_ms`` is null below a hundred of them."""

    p50_ms: float
    p99_ms: float | None
    most_ms: float


@dataclass(frozen=True, slots=True)
class DrainFigures:
    """What drains took beyond the time that the jobs needed themselves."""

    drains: int
    own: Latency
    """The jobs' own time: from the signal until all is saved and they end."""
    agent: Latency
    """From the agent's hearing of it to its ``freed``, by the agent's clock, less the own time."""
    log: Latency
    """From the commit of the command until a reader sees ``freed``, less the own time."""


def latency(times_ms: list[float]) -> Latency:
    """Summarise times."""
    top = p99(times_ms)
    return Latency(
        round(percentile(times_ms, 50), 1),
        None if top is None else round(top, 1),
        round(max(times_ms), 1),
    )


@dataclass(slots=True)
class _Times:
    """One drain; clock readings in ms, of the agent and of the bench."""

    own_ms: float
    heard_ms: int
    freed_ms: int
    committed_ms: float
    seen_ms: float


async def measure_drains(
    log: AgentLog, agent: AgentProcess, drains: int, seed: int
) -> DrainFigures:
    """Run and drain jobs.

    Raises
    ------
    BenchError
        A job did not leave as it should: there is no figure for that.
    """
    draw = random.Random(seed)
    times: list[_Times] = []
    while len(times) < drains:
        leases = [f"drain-{len(times) + n}" for n in range(min(WAVE, drains - len(times)))]
        times += await _wave(log, agent, leases, draw)
    return DrainFigures(
        drains=drains,
        own=latency([each.own_ms for each in times]),
        agent=latency([each.freed_ms - each.heard_ms - each.own_ms for each in times]),
        log=latency([each.seen_ms - each.committed_ms - each.own_ms for each in times]),
    )


async def _wave(
    log: AgentLog, agent: AgentProcess, leases: list[str], draw: random.Random
) -> list[_Times]:
    del log.told[:]
    saves_ms = {lease: draw.randint(*SAVE_MS) for lease in leases}
    await log.write(
        granted(
            lease,
            device,
            (sys.executable, "-S", str(JOB), str(saves_ms[lease]), str(agent.devices)),
        )
        for device, lease in enumerate(leases)
    )
    homes = {lease: agent.checkpoints / TEAM / lease for lease in leases}
    await log.until(
        lambda: all((home / "ready").exists() for home in homes.values()), "jobs that are ready"
    )
    committed: dict[str, float] = {}
    for lease in draw.sample(leases, len(leases)):
        await log.read_for(draw.randint(*APART_MS) / 1000)
        committed[lease] = 1000 * await log.write([must_leave(lease)])
    await log.until(lambda: len(_freed(log)) == len(leases), "freed leases")
    freed = _freed(log)
    heard = _heard(log)
    found = []
    for lease in leases:
        seen, status = freed[lease]
        if status.outcome is not LeaseOutcome.VACATED:
            raise BenchError(f"{lease} was not vacated: {status}")
        evidence = json.loads((homes[lease] / EVIDENCE).read_text("utf-8"))
        own_ms = evidence["own_ns"] / NS_PER_MS
        if own_ms < saves_ms[lease]:
            raise BenchError(f"{lease} left after {own_ms} ms, it saves for {saves_ms[lease]}")
        found.append(_Times(own_ms, heard[lease], status.at_ms, committed[lease], 1000 * seen))
    await log.write(output for lease in leases for output in over(lease))
    return found


def _freed(log: AgentLog) -> dict[str, tuple[float, LeaseStatusChanged]]:
    return {
        event.lease: (seen, event)
        for seen, event in log.told
        if isinstance(event, LeaseStatusChanged) and event.state is LeaseState.FREED
    }


def _heard(log: AgentLog) -> dict[str, int]:
    """When the agent heard of each drain: with that it tells that the job is warned."""
    found: dict[str, int] = {}
    for _, event in log.told:
        if isinstance(event, DrainStatusChanged) and event.state is DrainState.WARNED:
            found.setdefault(event.lease, event.at_ms)
    return found
