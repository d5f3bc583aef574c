"""What no decision of the protocol looks at, taken off, so that a gang can be checked.

- Of how far a part has come, only whether it is committed decides anything: the rows of the table
  for `warned`, `checkpointing` and `waiting` differ in nothing but these words, and so do those for
  `terminating` and `verifying` (:func:`walras_drain.transitions`; a test holds the check to it).
- When an agent was heard, how it answered its warning and when its devices were free are for the
  score, not for the session.
- What an agent says in between without being committed changes nothing; said twice in a row, it
  changes nothing the second time; and a session that has ended takes note of `cancelled` alone.
"""

from dataclasses import replace
from typing import Final

from tests.simulation.drains.agent_port import Word
from walras_contracts.drains import SessionState
from walras_contracts.work import DrainState
from walras_drain.parts import Part
from walras_drain.session import Session
from walras_drain.transitions import BEFORE_COMMITMENT, COMMITTED

SAYS_NOTHING: Final = frozenset({DrainState.WARNED, DrainState.CHECKPOINTING, DrainState.WAITING})
SAYS_COMMITTED: Final = frozenset({DrainState.TERMINATING, DrainState.VERIFYING, DrainState.FREED})


def coarse_session(session: Session) -> Session:
    """Return a session without what decides nothing."""
    state = session.state
    if state in BEFORE_COMMITMENT:
        state = SessionState.WARNED
    elif state in COMMITTED:
        state = SessionState.TERMINATING
    parts = tuple(_coarse_part(part) for part in session.parts)
    return replace(session, state=state, parts=parts, outcome="")


def _coarse_part(part: Part) -> Part:
    reached = DrainState.TERMINATING if part.is_committed else DrainState.WARNED
    return Part(
        part.node,
        reached=reached,
        holds=part.holds,
        back=part.back,
        end=part.end,
        outcome=part.outcome,
        lost=part.lost,
        command=part.command,
    )


def coarse_words(
    told: tuple[Word, ...], words: tuple[Word, ...], *, ended: bool
) -> tuple[Word, ...]:
    """Return of what an agent says now that which may change anything."""
    kept: list[Word] = []
    for word in words:
        coarse = word
        if word.outcome == "cancel_rejected" or word.drain in SAYS_COMMITTED:
            coarse = Word(DrainState.TERMINATING)
        elif word.drain in SAYS_NOTHING:
            continue
        last = kept[-1] if kept else (told[-1] if told else None)
        if coarse != last:
            kept.append(coarse)
    return words_after_the_end(tuple(kept)) if ended else tuple(kept)


def words_after_the_end(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return of what an agent said that which an ended session takes note of."""
    return tuple(word for word in words if word.drain is DrainState.CANCELLED)


def with_parts_swapped(session: Session) -> Session:
    """Return a session of two parts with them in the other order."""
    first, second = session.parts
    parts = (replace(second, node=first.node), replace(first, node=second.node))
    return replace(session, parts=parts)
