"""The outputs of one step, collected."""

from dataclasses import dataclass, field

from walras_contracts.work import JobStatusChanged, LeaseGranted
from walras_placement.jobs import Job
from walras_placement.leases import Lease
from walras_placement.remnants import Remnant
from walras_placement.reservations import RESERVED
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState
from walras_placement.tally import TALLY
from walras_runtime.records import Output, StateChange, StepResult, emit, tombstone


@dataclass(slots=True)
class Writer:
    """The outputs of one step, in a total order: by topic, then by key."""

    moment: Moment
    rules: Rules
    outputs: list[Output] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    """Jobs whose own record is to be written."""
    rewritten: dict[str, LeaseGranted] = field(default_factory=dict)
    """Parts of leases that changed, as they stand last."""
    told: dict[str, None] = field(default_factory=dict)
    """Jobs whose status is to be published."""
    reserved: dict[str, None] = field(default_factory=dict)
    """Jobs whose reservations changed."""
    remnants: dict[str, None] = field(default_factory=dict)
    """Keys of remnants that changed."""

    def rewrite(self, job: Job, lease: Lease) -> None:
        """Write the open parts of a lease again; it may change twice in one step."""
        self.changed[job.key] = None
        for part in lease.grants(job.entry(), job.attempt):
            if part.node in lease.open_parts:
                self.rewritten[part.record_key()] = part

    def hold_back(self, job: Job, lease: Lease, node: str) -> None:
        """Write the part on a node again: it must not be started any more."""
        for part in lease.grants(job.entry(), job.attempt):
            if part.node == node:
                self.rewritten[part.record_key()] = part.model_copy(update={"may_start": False})

    def end_part(self, lease: str, node: str) -> None:
        """End the record of a part of a lease."""
        key = f"{lease}/{node}"
        self.rewritten.pop(key, None)
        self.outputs.append(tombstone(LeaseGranted, key, node))

    def note_remnant(self, remnant: Remnant) -> None:
        """Write a remnant, or that it is gone, to the own state."""
        self.remnants[remnant.key] = None

    def result(self, state: PlacementState) -> StepResult:
        """Return all that the step wrote; a job that is gone leaves tombstones."""
        self.outputs.extend(emit(part) for part in self.rewritten.values())
        for key in self.told:
            job = state.jobs.get(key)
            if job is not None:
                self.outputs.append(emit(job.status()))
            else:
                team = key.partition("/")[0]
                self.outputs.append(tombstone(JobStatusChanged, key, team))
        changes = []
        for key in sorted(self.changed):
            job = state.jobs.get(key)
            changes.append(StateChange(key, job.dump() if job is not None else None))
        for key in sorted(self.reserved):
            reservation = state.reservations.get(key)
            value = reservation.dump() if reservation is not None else None
            changes.append(StateChange(RESERVED + key, value))
        for key in sorted(self.remnants):
            remnant = state.remnants.at(key)
            changes.append(StateChange(key, remnant.dump() if remnant is not None else None))
        changes += state.takeovers.take_changes()
        is_changed, value = state.tally.take_change()
        if is_changed:
            changes.append(StateChange(TALLY, value))
        return StepResult(sorted(self.outputs, key=_by_topic_and_key), changes)


def _by_topic_and_key(output: Output) -> tuple[str, str]:
    return output.topic, output.key
