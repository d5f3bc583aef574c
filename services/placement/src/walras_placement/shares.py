"""Devices of one node, held together."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Devices of one node, and what they are worth together (macc).

    Devices are held whole: a job that does not fill its last one has it to itself and counts with
    all of it, for quota and on the bill.
    """

    node: str
    devices: tuple[int, ...]
    size_macc: int

    @property
    def macc_per_device(self) -> int:
        """Size of each device when they were given."""
        return self.size_macc // len(self.devices)


def occupied_macc(shares: Iterable[Share]) -> int:
    """Return what shares hold together, whole devices."""
    return sum(share.size_macc for share in shares)
