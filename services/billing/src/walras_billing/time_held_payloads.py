"""Time held as records, made without building a model each.

They are the bytes of :class:`walras_contracts.usage_settled.UsageSettled` (a test compares them); a
settlement writes one for every job that ran. Names need no escaping by their pattern.
"""

from collections.abc import Iterator
from typing import Final

from walras_billing.time_held import Sums
from walras_contracts.usage_settled import UsageSettled
from walras_runtime.records import Output

_TOPIC: Final = UsageSettled.TOPIC
_TYPE: Final = UsageSettled.TYPE
_NOTHING_MEASURED: Final = (
    '"occupied_macc_ms":"0","allocated_macc_ms":"0","idle_macc_ms":"0","unmeasured_macc_ms":'
)


def usage_settled_outputs(
    boundary_ms: int, sums: Sums, settled_ms: int, partition: int
) -> Iterator[Output]:
    """Yield the records of the use of five minutes, by team, job, market and pool.

    Parameters
    ----------
    boundary_ms
        Their end.
    sums
        What was held in them, or by how much that changed.
    settled_ms
        The boundary that is settled.
    partition
        Where the outputs go.

    Yields
    ------
    Output
        What is not 0.
    """
    times = f',"boundary_ms":{boundary_ms},"settled_ms":{settled_ms},"held_macc_ms":'
    for holder in sorted(sums.held):
        team, job, market, pool = holder
        held, split = sums.held[holder], sums.split.get(holder)
        if split is None or not any(split):
            if not held:
                continue
            parts = f'{_NOTHING_MEASURED}"{held}"}}'
        else:
            occupied, allocated, idle = split
            parts = (
                f'"occupied_macc_ms":"{occupied}","allocated_macc_ms":"{allocated}",'
                f'"idle_macc_ms":"{idle}",'
                f'"unmeasured_macc_ms":"{held - occupied - allocated - idle}"}}'
            )
        payload = (
            f'{{"team":"{team}","pool":"{pool}","job":"{job}","market":"{market}"{times}'
            f'"{held}",{parts}'
        )
        key = f"{team}/{job}/{market}/{boundary_ms}"
        yield Output(_TOPIC, key, team, _TYPE, payload.encode(), partition)
