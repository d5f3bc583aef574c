"""What a ticker remembers between two decisions."""

from dataclasses import dataclass

from walras_runtime.records import Barrier
from walras_ticker.core import Look


@dataclass(slots=True)
class TickerState:
    """The last barrier in the log, and the last look at the clocks of this process.

    ``tried`` is the last barrier that this process began to write; where the broker did not answer
    it may be in the log or not.
    """

    last: Barrier | None = None
    look: Look | None = None
    tried: Barrier | None = None


def is_ours(state: TickerState, last: Barrier | None, next_epoch: int, held_epoch: int) -> bool:
    """Whether nobody else has written since this process held ``held_epoch``.

    Parameters
    ----------
    state
        What this process wrote and tried to write.
    last
        The last barrier in the log now.
    next_epoch
        One above the epoch of the writer of ``last``.
    held_epoch
        The epoch in which this process wrote.
    """
    if next_epoch <= held_epoch:
        return True
    # One epoch further: either this process' own barriers, or a successor's that saw none of them.
    return next_epoch == held_epoch + 1 and last in (state.last, state.tried)
