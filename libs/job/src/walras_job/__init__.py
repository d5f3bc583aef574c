"""What a job needs to leave in time and go on elsewhere; the standard library alone."""

from walras_job.checkpoint import Checkpoint
from walras_job.drain import Drain, drainable
from walras_job.errors import (
    CheckpointFullError,
    CheckpointReadError,
    CheckpointWriteError,
    ControlDirectoryMissingError,
    ControlWriteError,
    ForkedDrainError,
    JobError,
    PartEnvironmentError,
    StaleAttemptError,
)
from walras_job.part import Part
from walras_job.saved import Saved

__all__ = [
    "Checkpoint",
    "CheckpointFullError",
    "CheckpointReadError",
    "CheckpointWriteError",
    "ControlDirectoryMissingError",
    "ControlWriteError",
    "Drain",
    "ForkedDrainError",
    "JobError",
    "Part",
    "PartEnvironmentError",
    "Saved",
    "StaleAttemptError",
    "drainable",
]
