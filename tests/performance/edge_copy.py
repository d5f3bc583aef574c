"""Intake's rival: the same step loop around a stage that decodes, encodes and remembers nothing.

It reads and writes the topics of intake, so both see the same batches and transactions. What it
leaves out is what intake decides: whether a job is new and allowed, its position, its state.
"""

from dataclasses import replace

from walras_contracts.demand import JobQueued, JobSubmitted
from walras_contracts.edge import decode_edge
from walras_intake.settings import Settings
from walras_intake.wiring import build
from walras_runtime.records import Record, Step, StepResult, emit
from walras_runtime.service import service_main
from walras_runtime.stage import StageSpec

ACCEPTED = frozenset({JobSubmitted.TYPE})


class EdgeCopyStage:
    """Turns each submission into a queue record of the same content."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def fold(self, record: Record) -> None:
        """Accounts are not looked at."""

    def load(self, key: str, value: bytes) -> None:
        """There is no state."""

    def step(self, step: Step) -> StepResult:
        """Copy the demand of one interval."""
        outputs = []
        for record in step.records["demand"]:
            job = decode_edge(record.type, record.event_id, record.source, record.value, ACCEPTED)
            if isinstance(job, JobSubmitted):
                outputs.append(emit(_queued(job), partition=self._partition))
        return StepResult(outputs)


def _queued(job: JobSubmitted) -> JobQueued:
    return JobQueued(
        team=job.team,
        pool=job.team,
        job=job.job,
        types=job.types,
        size_macc=job.size_macc,
        gang=job.gang,
        limit_micro=job.limit_micro,
        expected_run_ms=job.expected_run_ms,
        minimum_run_ms=job.minimum_run_ms,
        drainability=job.drainability,
        deadline_ms=job.deadline_ms,
        submitted_ms=job.submitted_ms,
        position=0,
        revision=0,
        cancelled=False,
    )


def copying(settings: Settings) -> StageSpec:
    """Return intake's wiring around the copying stage."""
    return replace(build(settings), build=EdgeCopyStage)


def main() -> None:
    """Run as intake does."""
    service_main(Settings, copying)


if __name__ == "__main__":
    main()
