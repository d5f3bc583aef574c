"""What the disk said, as errors that carry a code and say what to do."""

import errno
from pathlib import Path
from typing import Final

from walras_job.errors import CheckpointFullError, CheckpointReadError, CheckpointWriteError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_fault(path: Path, error: OSError) -> CheckpointWriteError:
    """Return the error for a checkpoint, or a directory of them, that cannot be written."""
    if error.errno in _NO_ROOM:
        return CheckpointFullError(
            f"no room for a checkpoint in {path}: {error.strerror}. The ones before it are "
            "untouched; make room or raise the quota, and save again"
        )
    return CheckpointWriteError(
        f"a checkpoint cannot be written to {path}: {error.strerror}. The ones before it are "
        "untouched; look at the rights and the mount of that directory"
    )


def read_fault(path: Path, error: OSError) -> CheckpointReadError:
    """Return the error for a checkpoint, or a directory of them, that cannot be read now."""
    return CheckpointReadError(
        f"{path} cannot be read: {error.strerror}. Try again; if it stays so, look at the rights "
        "and the mount, or move it away to go on from the checkpoint before it"
    )
