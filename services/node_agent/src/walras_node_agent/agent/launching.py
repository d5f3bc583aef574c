"""What is started for a part: its command, its environment, where."""

from collections.abc import Mapping
from dataclasses import dataclass

from walras_contracts.work import LeaseGranted
from walras_node_agent.agent.contract import (
    ATTEMPT_VARIABLE,
    CHECKPOINT_DIRECTORY_VARIABLE,
    CONTROL_DIRECTORY_VARIABLE,
    DEVICES_VARIABLE,
    JOB_VARIABLE,
    LEASE_VARIABLE,
    NODE_VARIABLE,
    PART_VARIABLE,
    PARTS_VARIABLE,
    TEAM_VARIABLE,
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    checkpoint_directory: str


def launch(
    grant: LeaseGranted,
    control_directory: str,
    checkpoint_root: str,
    passed: Mapping[str, str],
    visible: Mapping[str, str],
) -> Launch | None:
    """Return what is started for a part; None where its lease names no command.

    Parameters
    ----------
    grant
        The part.
    control_directory
        Its own.
    checkpoint_root
        Below it each job of each team has a directory that outlives the lease.
    passed
        What the job gets of the agent's own environment; it declares the rest.
    visible
        Variables by which the libraries of the devices see those of the part only.
    """
    if grant.run is None:
        return None
    checkpoints = f"{checkpoint_root}/{grant.team}/{grant.job}"
    declared = {variable.name: variable.value for variable in grant.run.environment}
    devices = ",".join(map(str, grant.devices))
    said = {
        TEAM_VARIABLE: grant.team,
        JOB_VARIABLE: grant.job,
        LEASE_VARIABLE: grant.lease,
        NODE_VARIABLE: grant.node,
        ATTEMPT_VARIABLE: str(grant.attempt),
        PART_VARIABLE: str(grant.part),
        PARTS_VARIABLE: str(grant.parts),
        DEVICES_VARIABLE: devices,
        CONTROL_DIRECTORY_VARIABLE: control_directory,
        CHECKPOINT_DIRECTORY_VARIABLE: checkpoints,
    }
    # Last what the platform says: a job cannot pretend to be another's.
    environment = {**passed, **declared, **visible, **said}
    return Launch(grant.run.command, environment, grant.run.directory or checkpoints, checkpoints)
