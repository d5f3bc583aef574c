"""When the next barrier is due: a pure function of the last one and of two looks at the clocks."""

from dataclasses import dataclass
from enum import StrEnum

from walras_runtime.records import Barrier

JUMP_INTERVALS = 2
"""A wall clock that gains or loses more than this against the monotonic one has jumped."""


@dataclass(frozen=True, slots=True)
class Look:
    """Both clocks of this machine, read together."""

    wall_ms: int
    monotonic_ms: int


class HaltCode(StrEnum):
    """Why the ticker must not go on."""

    CLOCK_JUMP = "clock_jump"
    CLOCK_BEFORE_BARRIER = "clock_before_barrier"


@dataclass(frozen=True, slots=True)
class Write:
    """Write this barrier now."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due before this wall time."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Halt:
    """The clock cannot be trusted: write nothing until somebody has looked at it."""

    code: HaltCode
    reason: str


Decision = Write | Wait | Halt


def jump_of(before: Look | None, now: Look, interval_ms: int) -> Halt | None:
    """Return the halt where the wall clock jumped between two looks of one process.

    Time in which the process itself stood still passes on both clocks and is no jump.
    """
    if before is None:
        return None
    gained_ms = (now.wall_ms - before.wall_ms) - (now.monotonic_ms - before.monotonic_ms)
    if abs(gained_ms) <= JUMP_INTERVALS * interval_ms:
        return None
    return Halt(
        HaltCode.CLOCK_JUMP,
        f"the wall clock gained {gained_ms} ms against the monotonic clock; "
        f"at most {JUMP_INTERVALS * interval_ms} ms are believed",
    )


def decide(last: Barrier | None, before: Look | None, now: Look, interval_ms: int) -> Decision:
    """Decide what is due (design §7, step protocol §2).

    Market time is the wall clock rounded down to the interval, and only grows. Time that passed
    since the last barrier, however long, is an outage: one barrier with the next number ends it.

    Parameters
    ----------
    last
        The last barrier written, by whichever process; None before the first.
    before
        The previous look of this process; None at its first.
    now
        The present look.
    interval_ms
        Time between two barriers.
    """
    jump = jump_of(before, now, interval_ms)
    if jump is not None:
        return jump
    due_ms = now.wall_ms // interval_ms * interval_ms
    if last is None:
        return Write(Barrier(0, due_ms))
    if now.wall_ms < last.market_time_ms:
        return Halt(
            HaltCode.CLOCK_BEFORE_BARRIER,
            f"the wall clock says {now.wall_ms} ms, barrier {last.number} was written for "
            f"{last.market_time_ms} ms",
        )
    if due_ms > last.market_time_ms:
        return Write(Barrier(last.number + 1, due_ms))
    return Wait((last.market_time_ms // interval_ms + 1) * interval_ms)
