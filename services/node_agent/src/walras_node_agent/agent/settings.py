"""Settings of the agent of one node."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from walras_contracts.identifiers import ID_PATTERN
from walras_runtime.settings import ServiceSettings

NodeName = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Milliseconds = Annotated[int, Field(ge=1, le=86_400_000)]


class AgentSettings(ServiceSettings):
    """Agent of one node: runs, meters and drains real processes."""

    SERVICE: ClassVar[str] = "node_agent"

    node: NodeName
    """The node that it works for."""
    state_directory: str
    """Its journal, the directories of its parts; on a disk of this machine, for this node alone."""
    checkpoint_directory: str | None = None
    """Below it each job has a directory that outlives its leases; null: in the state directory."""
    device_port: Literal["simulated", "nvml"] = "simulated"
    """How devices are read: simulated by files, or by NVIDIA's library (package nvidia-ml-py)."""
    devices: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many devices are simulated."""
    device_directory: str | None = None
    """Where they are; null: in the state directory."""
    device_free_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    """NVML: so much memory in use, by no process, still counts as free."""
    device_read_ms: Milliseconds = 500
    """Time between two reads of a device that has to be free."""
    poll_ms: Annotated[int, Field(ge=10, le=10_000)] = 200
    """How often processes and their answers are looked at."""
    heartbeat_ms: Milliseconds = 10_000
    """How often it says that it lives."""
    progress_ms: Milliseconds = 10_000
    """How often at least a drain says what it waits for."""
    orphan_ms: Annotated[int, Field(ge=1_000, le=89_000)] = 60_000
    """After so long without an agent its processes end; less than the platform's lease timeout."""
    leave_ms: Milliseconds = 2_000
    """How soon after a job of one part has saved SIGTERM comes, where it does not end itself."""
    terminate_ms: Milliseconds = 30_000
    """From SIGTERM to SIGKILL, for what ends without a drain."""
    verify_ms: Milliseconds = 10_000
    """To see devices free, for what ends without a drain."""
    spool_mib: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Events that the log has not taken; above this, use is cut later."""
    cgroup_directory: str | None = None
    """A cgroup (version 2) in which it may make others; null: processes are found without."""
    passed_variables: str = "PATH,HOME,LANG,LC_ALL,TZ,TMPDIR,LD_LIBRARY_PATH"
    """Variables of its own environment that jobs get, too; no other reaches them."""
    clock_tolerance_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 1_000
    """When it is started again, a wall clock that was set by more is followed."""

    @model_validator(mode="after")
    def _is_heard_before_it_is_given_up(self) -> Self:
        if self.heartbeat_ms * 2 > self.orphan_ms:
            raise ValueError(
                f"WALRAS_NODE_AGENT_HEARTBEAT_MS: {self.heartbeat_ms} is more than half of "
                f"WALRAS_NODE_AGENT_ORPHAN_MS, which is {self.orphan_ms}"
            )
        return self
