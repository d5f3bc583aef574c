"""Errors of the job SDK: each carries a code and whether trying again can help."""

from typing import ClassVar


class JobError(Exception):
    """Base of all expected errors."""

    code: ClassVar[str] = "job_error"
    retriable: ClassVar[bool] = False


class PartEnvironmentError(JobError):
    """A variable that the node agent sets for a part is missing or not what it must be."""

    code = "environment_wrong"


class ControlDirectoryMissingError(JobError):
    """The control directory that the environment names is not there."""

    code = "control_directory_missing"


class ControlWriteError(JobError):
    """A file could not be put into the control directory."""

    code = "control_write_failed"
    retriable = True


class DocumentUnreadableError(JobError):
    """A file of the control directory is not what the protocol says."""

    code = "document_unreadable"


class ForkedDrainError(JobError):
    """A forked child speaks through its parent's drain."""

    code = "forked_drain"


class CheckpointWriteError(JobError):
    """A checkpoint could not be written; the ones before it are untouched."""

    code = "checkpoint_write_failed"
    retriable = True


class CheckpointFullError(CheckpointWriteError):
    """There is no room for a checkpoint; the ones before it are untouched."""

    code = "checkpoint_disk_full"


class CheckpointReadError(JobError):
    """A checkpoint, or its directory, cannot be read now: what it holds is not known."""

    code = "checkpoint_unreadable"
    retriable = True


class StaleAttemptError(JobError):
    """A later attempt of the job owns the checkpoints: this process must end without saving."""

    code = "stale_attempt"


class LaunchError(JobError):
    """The launcher cannot do on this system what it is there for."""

    code = "launch_impossible"
