"""What an agent costs while it does nothing but keep many leases: CPU time by wall clock."""

import time
from dataclasses import dataclass
from typing import Final

from tests.performance.agent_log import AgentLog
from tests.performance.agent_process import AgentProcess
from tests.performance.agent_records import granted
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.work import LeaseState, LeaseStatusChanged, UsageMetered

PPM: Final = 1_000_000
SETTLE_S: Final = 5.0
"""After the last start; what starting costs is not what keeping costs."""
HOLDS: Final = ': > "$0/$WALRAS_DEVICES/$$" && exec sleep 1000000'
"""A job that holds its device and costs nothing; $0: where the devices are."""


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """CPU time over wall time of an agent and of the keepers beside its parts."""

    leases: int
    wall_s: float
    agent_ppm: int
    """Of one core, user and system."""
    keepers_ppm: int
    """All of them together."""
    keepers: int
    heartbeats: int
    usage_records: int
    others_cores: float
    """What else kept the machine busy: all but the agent, keepers, broker and bench."""


async def measure_load(
    log: AgentLog, agent: AgentProcess, broker_pid: int, leases: int, wall_s: float
) -> AgentFigures:
    """Give the agent leases, wait until all run, and watch it for a while.

    Raises
    ------
    BenchError
        It did not do what costs time: keep, meter and tell all of them.
    """
    command = ("/bin/sh", "-c", HOLDS, str(agent.devices))
    del log.told[:]
    await log.write(granted(f"kept-{n}", n, command) for n in range(leases))
    await log.until(lambda: len(_running(log)) == leases, f"{leases} running leases")
    await log.read_for(SETTLE_S)
    del log.told[:]
    keepers = agent.keepers()
    kept = {f"keeper {pid}": pid for pid in keepers}
    meter = CpuMeter({"agent": agent.pid, "broker": broker_pid, **kept})
    began = time.perf_counter()
    await log.read_for(wall_s)
    passed_s, used = time.perf_counter() - began, meter.used()
    beats = [event for _, event in log.told if isinstance(event, NodeHealthReported)]
    uses = len(beats[-1].uses) if beats else 0
    if len(keepers) != leases or uses != leases:
        raise BenchError(f"of {leases} leases {len(keepers)} have keepers, {uses} were told of")
    return AgentFigures(
        leases=leases,
        wall_s=round(passed_s, 1),
        agent_ppm=round(used["agent"] * PPM / passed_s),
        keepers_ppm=round(sum(used[name] for name in kept) * PPM / passed_s),
        keepers=len(keepers),
        heartbeats=len(beats),
        usage_records=sum(isinstance(event, UsageMetered) for _, event in log.told),
        others_cores=round(used["others"] / passed_s, 2),
    )


def _running(log: AgentLog) -> set[str]:
    return {
        event.lease
        for _, event in log.told
        if isinstance(event, LeaseStatusChanged) and event.state is LeaseState.RUNNING
    }
