"""The only place that reads a clock or draws a name; decisions take market time as an argument."""

import os
import time


def wall_ms() -> int:
    """Return the wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return a clock that never jumps, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def incarnation() -> str:
    """Return a name that no other process ever had: pid, wall time and 8 random bytes."""
    return f"{os.getpid()}-{wall_ms()}-{os.urandom(8).hex()}"
