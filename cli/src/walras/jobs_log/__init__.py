"""The log as the commands about jobs and nodes see it: read, followed, written to."""

from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.items import Item, Log, Place, Watch

__all__ = ["Fault", "Item", "JobsLogError", "Log", "Place", "Watch"]
