"""A start pays for at least five minutes (design §5), however soon its job ended.

What a part owes for the rest is use like any other: of the same source, with the next numbers, in
market time that has passed. Nothing ran in it, so its ``running_ms`` is 0.
"""

from typing import Final

from walras_contracts.drains import VacateReason
from walras_contracts.work import LeaseOutcome, UsageMetered, WorkClass
from walras_node_agent.usage_pieces import full_piece_end_ms, pieces

MINIMUM_START_MS: Final = 300_000
ENDED_BY_ITSELF: Final = frozenset({LeaseOutcome.FINISHED, LeaseOutcome.FAILED})
ENDED_BY_ITS_OWNER: Final = ENDED_BY_ITSELF | {LeaseOutcome.VACATED}
"""What was cancelled, however it left."""


def owes(work_class: WorkClass, outcome: LeaseOutcome, left_for: str | None) -> bool:
    """Return whether a part pays for the least time although it is freed before.

    Who had to leave for others, was lost, was refused or did not start owes nothing.

    Parameters
    ----------
    work_class
        Of its lease when it was freed: what runs at price 0 owes nothing.
    outcome
        How it came to be freed.
    left_for
        Why it had been asked to leave when its job ended; None: it had not, or was called back.
    """
    if work_class is not WorkClass.MARKET:
        return False
    if left_for == VacateReason.CANCELLED:
        return outcome in ENDED_BY_ITS_OWNER
    return left_for is None and outcome in ENDED_BY_ITSELF


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
    if min(owed.end_ms, full_piece_end_ms(owed.start_ms)) > now_ms:
        return [], owed
    cut = [piece for piece in pieces(owed.start_ms, owed.end_ms) if piece[1] <= now_ms]
    told = [
        owed.model_copy(update={"seq": seq, "start_ms": start_ms, "end_ms": end_ms})
        for seq, (start_ms, end_ms) in enumerate(cut, owed.seq)
    ]
    end_ms = told[-1].end_ms
    if end_ms == owed.end_ms:
        return told, None
    return told, owed.model_copy(update={"seq": owed.seq + len(told), "start_ms": end_ms})
