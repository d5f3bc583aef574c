"""The legs of `make bench-placement` with a real agent: it drains jobs, and it keeps many."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.performance.agent_load import AgentFigures, measure_load
from tests.performance.agent_log import agent_log
from tests.performance.agent_process import AgentProcess, running_agent
from tests.performance.command import Say
from tests.performance.drain_latency import WAVE, DrainFigures, measure_drains
from walras_launcher import start_kafka

AGENT_PARTS: Final = ("drains", "agent")


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What a run measures: how many drains, how many leases are kept for how long."""

    drains: int
    leases: int
    kept_s: float
    seed: int


def full_agent_plan(seed: int) -> AgentPlan:
    """Return the run whose figures count."""
    return AgentPlan(drains=200, leases=100, kept_s=120.0, seed=seed)


def quick_agent_plan(seed: int) -> AgentPlan:
    """Return a run that only shows that the legs work."""
    return AgentPlan(drains=4, leases=6, kept_s=12.0, seed=seed)


async def measure_agent(
    what: AgentPlan, only: frozenset[str], say: Say
) -> tuple[DrainFigures | None, AgentFigures | None]:
    """Measure what is wanted of an agent, with a broker of its own.

    Raises
    ------
    BenchError
        It did not do its work.
    LauncherError
        There is no broker.
    """
    drains: DrainFigures | None = None
    load: AgentFigures | None = None
    with start_kafka() as broker, tempfile.TemporaryDirectory() as directory:
        agent: AgentProcess | None = None

        def look() -> None:
            if agent is not None:
                agent.look()

        async with agent_log(broker.bootstrap, look) as log:
            # The agent ends before its log does.
            with running_agent(broker.bootstrap, Path(directory), max(what.leases, WAVE)) as agent:
                if "drains" in only:
                    say(f"{what.drains} drains of real jobs")
                    drains = await measure_drains(log, agent, what.drains, what.seed)
                if "agent" in only:
                    say(f"an agent keeps {what.leases} leases for {what.kept_s:.0f} s")
                    load = await measure_load(log, agent, broker.pid, what.leases, what.kept_s)
    return drains, load
