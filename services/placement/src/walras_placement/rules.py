"""What the settings and the design fix, and where in time a step is."""

from dataclasses import dataclass

from walras_contracts.placing import STUCK_AFTER_CYCLES


@dataclass(frozen=True, slots=True)
class Rules:
    """Durations; those in cycles count barriers (:meth:`steps`)."""

    budget_grace_ms: int = 300_000
    """How long what runs for money stays after its team was told to be exhausted."""
    cycle_every: int = 1
    """Barriers per cycle."""
    held_back_cycles: int = 10
    """So long after it was asked to leave, a job does not start again (R1)."""
    frozen_cycles: int = 100
    """So long one of two jobs waits that took each other's devices again and again."""
    reserve_after_cycles: int = 10
    """How long the first job of a queue waits before devices are kept for it."""
    stuck_after_cycles: int = STUCK_AFTER_CYCLES
    """How long the first job of a queue waits before it counts as stuck."""
    keep_free_cycles: int = 2
    """How long reserved devices stay free for their job once all of them are."""

    def cycle_of(self, step: int) -> int:
        """Return the cycle that a step belongs to."""
        return step // self.cycle_every

    def steps(self, cycles: int) -> int:
        """Return how many barriers some cycles are."""
        return cycles * self.cycle_every


@dataclass(frozen=True, slots=True)
class Moment:
    """A step: the number of its barrier, and its market time."""

    step: int
    now_ms: int
