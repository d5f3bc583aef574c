"""Opening an agent: its lock, its journal, its machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walras_node_agent.agent.building import (
    DEVICES,
    PARTS,
    checkpoints_of,
    passed_of,
    rules_of,
)
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.recovery import (
    Recovered,
    Start,
    give_back,
    move_into,
    offset_for,
    recover,
)
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.agent.standing import NodeStanding
from walras_node_agent.host.beat import BEAT, Beat, last_beat_ms
from walras_node_agent.host.cgroups import Cgroup
from walras_node_agent.host.devices import DevicePort, SimulatedDevices
from walras_node_agent.host.files import PRIVATE_DIRECTORY
from walras_node_agent.host.journal import Journal
from walras_node_agent.host.keeping import Keeping
from walras_node_agent.host.lock import only_agent
from walras_node_agent.host.looking import Looks
from walras_node_agent.host.machine import boot_id, boottime_ms
from walras_node_agent.host.nvml import NvmlDevices
from walras_node_agent.host.processes import Processes
from walras_node_agent.host.pulse import Pulse
from walras_node_agent.host.spool import Spool
from walras_node_agent.host.working import Agent, Machine
from walras_runtime.clock import wall_ms
from walras_runtime.health import Health
from walras_runtime.settings import SettingsError

MIB = 1 << 20


@contextmanager
def opened(settings: AgentSettings, incarnation: str, health: Health) -> Iterator[Agent]:
    """Open the agent of a node, as it was left.

    Raises
    ------
    SettingsError
        Its directory cannot be used, another agent works in it, or its devices cannot be read.
    JournalDamagedError
        Its journal is damaged, and not by a crash.
    """
    directory = Path(settings.state_directory).absolute()
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"WALRAS_NODE_AGENT_STATE_DIRECTORY: {error}") from error
    with only_agent(directory, settings.node):
        journal = Journal(directory)
        beat_path = directory.joinpath(BEAT)
        beat_ms = last_beat_ms(beat_path)
        beat = Beat(beat_path)
        try:
            recovered = recover(journal.read())
            boot = boot_id()
            now_offset_ms = wall_ms() - boottime_ms()
            tolerance_ms = settings.clock_tolerance_ms
            offset_ms = offset_for(recovered.start, boot, now_offset_ms, tolerance_ms)
            moved_ms = move_into(recovered, boot, offset_ms)
            start = Start(boot, offset_ms)
            beat_ms = None if beat_ms is None else beat_ms + moved_ms
            devices = _devices(settings, directory)
            node = _node(settings, devices, recovered, offset_ms)
            processes = Processes(
                directory.joinpath(PARTS), beat_path, settings.orphan_ms, _cgroup(settings)
            )
            looks = Looks(
                node, processes, devices, read_ms=settings.device_read_ms, beat_ms=beat_ms
            )
            events, number = recovered.events.items(), recovered.next_number
            spool = Spool(events, number, settings.spool_mib * MIB)
            yield Agent(
                node,
                Machine(processes, devices, looks, beat),
                Keeping(node, journal, spool, start, recovered.seen),
                Pulse(
                    node,
                    devices,
                    every_ms=settings.heartbeat_ms,
                    incarnation=incarnation,
                    health=health,
                ),
                NodeStanding(settings.orphan_ms),
                checkpoints=str(Path(checkpoints_of(settings)).absolute()),
                passed=passed_of(settings, os.environ),
                poll_ms=settings.poll_ms,
                health=health,
            )
        finally:
            beat.close()
            journal.close()


def _node(
    settings: AgentSettings, devices: DevicePort, recovered: Recovered, offset_ms: int
) -> Node:
    node = Node(
        settings.node,
        devices.count,
        rules_of(settings),
        progress_ms=settings.progress_ms,
        offset_ms=offset_ms,
    )
    give_back(recovered, node)
    return node


def _devices(settings: AgentSettings, directory: Path) -> DevicePort:
    if settings.device_port == "nvml":
        return NvmlDevices(settings.device_free_mib)
    own = directory.joinpath(DEVICES)
    given = settings.device_directory
    return SimulatedDevices(own if given is None else Path(given), settings.devices)


def _cgroup(settings: AgentSettings) -> Cgroup | None:
    if settings.cgroup_directory is None:
        return None
    try:
        return Cgroup(Path(settings.cgroup_directory))
    except OSError as error:
        raise SettingsError(
            f"WALRAS_NODE_AGENT_CGROUP_DIRECTORY: {error}; name a directory of the unified "
            "hierarchy that this user may write, or leave it out"
        ) from error
