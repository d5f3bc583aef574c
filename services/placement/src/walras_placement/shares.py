"""Devices of one node, held together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


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

    def dump(self) -> list[object]:
        """Return it as a part of a record of the state topic."""
        return [self.node, self.devices, self.size_macc]

    @staticmethod
    def parse(document: list[Any]) -> "Share":
        """Read what :meth:`dump` returned."""
        node, devices, size_macc = document
        return Share(node, tuple(devices), size_macc)


def by_node(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Return shares in the order of their nodes' names."""
    return tuple(sorted(shares, key=_node_of))


def occupied_macc(shares: Iterable[Share]) -> int:
    """Return what shares hold together, whole devices."""
    return sum(share.size_macc for share in shares)


def _node_of(share: Share) -> str:
    return share.node
