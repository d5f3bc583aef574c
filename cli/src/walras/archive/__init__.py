"""Stored cycles: read from a broker or from Parquet files, and kept in such files.

An archive has one folder per market and in it one file per day of market time (UTC).
"""

from walras.archive.directory import Archive
from walras.archive.log_source import cycles_of_log
from walras.archive.recorded_cycle import ArchiveError, BrokenCycleError, RecordedCycle

__all__ = ["Archive", "ArchiveError", "BrokenCycleError", "RecordedCycle", "cycles_of_log"]
