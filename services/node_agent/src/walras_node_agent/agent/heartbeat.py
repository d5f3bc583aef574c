"""The sign of life of a node: which devices must not be used, how busy leases are."""

from collections.abc import Mapping
from typing import Final

from walras_contracts.capacity import LeaseUse, NodeHealthReported
from walras_contracts.identifiers import recorded

DETAIL_MOST: Final = 500


def heartbeat(
    node: str,
    unhealthy: Mapping[int, str],
    busy: Mapping[str, list[int]],
    incarnation: str,
    reported_ms: int,
) -> NodeHealthReported:
    """Return a heartbeat.

    Parameters
    ----------
    node
        The node.
    unhealthy
        Devices that must not be used, with the reason.
    busy
        How busy the devices of each lease were, in ppm, as often as they were read since the last
        heartbeat.
    incarnation
        Of the agent's process.
    reported_ms
        Now, wall clock.
    """
    why = dict.fromkeys(reason for _, reason in sorted(unhealthy.items()))
    return NodeHealthReported(
        node=node,
        unhealthy_devices=tuple(sorted(unhealthy)),
        reported_ms=reported_ms,
        incarnation=incarnation,
        uses=tuple(
            LeaseUse(lease=lease, busy_ppm=sum(read) // len(read))
            for lease, read in sorted(busy.items())
            if read
        ),
        detail=recorded("; ".join(why), DETAIL_MOST),
    )
