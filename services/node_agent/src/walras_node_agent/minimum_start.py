"""A start pays for at least five minutes (design §5), however soon its job ended.

What a part owes for the rest is use like any other: of the same source, with the next numbers, in
market time that has passed. Nothing ran in it, so its ``running_ms`` is 0.
"""

from typing import Final

from walras_contracts.work import LeaseOutcome, UsageMetered, WorkClass
from walras_node_agent.usage_pieces import pieces

MINIMUM_START_MS: Final = 300_000
ENDED_BY_ITSELF: Final = frozenset({LeaseOutcome.FINISHED, LeaseOutcome.FAILED})
"""Whose job did not end for others: what was asked to leave, lost or refused owes nothing."""


def owes(work_class: WorkClass, outcome: LeaseOutcome, *, draining: bool) -> bool:
    """Return whether a part pays for the least time although it is freed before.

    Parameters
    ----------
    work_class
        Of its lease when it was freed: what runs at price 0 owes nothing.
    outcome
        How it came to be freed.
    draining
        Whether it was asked to leave by then, and not called back.
    """
    return work_class is WorkClass.MARKET and outcome in ENDED_BY_ITSELF and not draining


def owed_until(owed: UsageMetered, now_ms: int) -> tuple[list[UsageMetered], UsageMetered | None]:
    """Return what is owed up to a time, cut like all use, and what is owed behind it.

    Parameters
    ----------
    owed
        One record over the whole time, with the first number.
    now_ms
        Only what ended by then is told: use of the future is nobody's.

    Returns
    -------
    tuple
        The records, and the rest; None: nothing is owed any more.
    """
    cut = [piece for piece in pieces(owed.start_ms, owed.end_ms) if piece[1] <= now_ms]
    if not cut:
        return [], owed
    told = [
        owed.model_copy(update={"seq": seq, "start_ms": start_ms, "end_ms": end_ms})
        for seq, (start_ms, end_ms) in enumerate(cut, owed.seq)
    ]
    end_ms = told[-1].end_ms
    if end_ms == owed.end_ms:
        return told, None
    return told, owed.model_copy(update={"seq": owed.seq + len(told), "start_ms": end_ms})
