"""How long devices were held, and how that time was used, as billing settled it."""

from dataclasses import dataclass
from typing import Final

from walras.billing_log.amounts import half_even
from walras.billing_log.window import Window
from walras_contracts.quantities import PPM, SETTLEMENT_MS
from walras_contracts.usage_settled import UsageSettled

PARTS: Final = ("occupied", "allocated", "idle", "unmeasured")
"""What held time is made of, in the order in which it is shown."""


@dataclass(slots=True)
class TimeHeld:
    """Macc·ms that were held; the four parts sum to it.

    Occupied: the processes used the devices. Allocated: they existed and did not. Idle: there were
    none. Unmeasured: nobody can say.
    """

    held_macc_ms: int = 0
    occupied_macc_ms: int = 0
    allocated_macc_ms: int = 0
    idle_macc_ms: int = 0
    unmeasured_macc_ms: int = 0

    def take(self, record: UsageSettled) -> None:
        """Add what a record says; it may take away what earlier ones said."""
        self.held_macc_ms += int(record.held_macc_ms)
        self.occupied_macc_ms += int(record.occupied_macc_ms)
        self.allocated_macc_ms += int(record.allocated_macc_ms)
        self.idle_macc_ms += int(record.idle_macc_ms)
        self.unmeasured_macc_ms += int(record.unmeasured_macc_ms)

    def add(self, other: "TimeHeld") -> None:
        """Add another's time."""
        self.held_macc_ms += other.held_macc_ms
        self.occupied_macc_ms += other.occupied_macc_ms
        self.allocated_macc_ms += other.allocated_macc_ms
        self.idle_macc_ms += other.idle_macc_ms
        self.unmeasured_macc_ms += other.unmeasured_macc_ms

    def part_macc_ms(self, part: str) -> int:
        """Return one of :data:`PARTS`."""
        macc_ms: int = getattr(self, f"{part}_macc_ms")
        return macc_ms

    def share_ppm(self, part: str) -> int | None:
        """Return the share of a part, rounded half to even; None where nothing was held."""
        if not self.held_macc_ms:
            return None
        return half_even(PPM * self.part_macc_ms(part), self.held_macc_ms)


def is_within(window: Window, record: UsageSettled) -> bool:
    """Whether the five minutes of a record lie whole in a window: parts of them are not told."""
    span = (max(0, record.boundary_ms - SETTLEMENT_MS), record.boundary_ms)
    return window.clip(*span) == span
