"""Breadth first over all states of a system: what must hold in each, in each move, at each end."""

from array import array
from collections import deque
from dataclasses import dataclass

from tests.simulation.drains.system import Move, State, System
from walras_contracts.drains import SessionState
from walras_drain.parts import PartEnd
from walras_drain.transitions import Effect

ENDS = {Effect.TELL_ENDED, Effect.TELL_CANCELLED}


class BrokenError(AssertionError):
    """Something that must hold does not; the message tells how it came to that."""


@dataclass(frozen=True, slots=True)
class Explored:
    """How much there was."""

    states: int
    moves: int
    ends: int
    sessions: int
    cancelled: int
    failed: int


def explore(system: System, most: int = 5_000_000) -> Explored:
    """Visit every state.

    Raises
    ------
    BrokenError
        With the moves that lead there.
    """
    start = system.standing(system.start())
    numbers: dict[State, int] = {start: 0}
    states = [start]
    came_from: list[tuple[int, str]] = [(-1, "")]
    fair: list[array[int]] = []
    queue = deque([0])
    count = ends = 0

    def broken(number: int, *words: str) -> BrokenError:
        path = list(words)
        while number > 0:
            number, name = came_from[number]
            path.insert(0, name)
        return BrokenError("\n  ".join(path))

    while queue:
        number = queue.popleft()
        state = states[number]
        if (fault := fault_of_state(system, state)) is not None:
            raise broken(number, f"=> {fault}")
        onward = array("I")
        for move in system.moves(state):
            if move.state == state:
                continue
            count += 1
            if (fault := fault_of_move(system, move)) is not None:
                raise broken(number, move.name, f"=> {fault}")
            after = system.standing(move.state)
            found = numbers.get(after)
            if found is None:
                found = numbers[after] = len(states)
                states.append(after)
                came_from.append((number, move.name))
                queue.append(found)
                if found >= most:
                    raise AssertionError(f"more than {most} states")
            if not move.may:
                onward.append(found)
        fair.append(onward)
        if not onward:
            ends += 1
            if (fault := fault_of_end(system, state)) is not None:
                raise broken(number, f"=> {fault}")
    circle = some_circle(fair)
    if circle is not None:
        raise broken(circle, "=> it can go on for ever from here")
    found_states = [system.sessions.values[state.session].state for state in states]
    return Explored(
        len(states),
        count,
        ends,
        len(system.sessions.values),
        found_states.count(SessionState.CANCELLED),
        found_states.count(SessionState.FAILED),
    )


def fault_of_state(system: System, state: State) -> str | None:
    """Return what must never be, and is."""
    session = system.sessions.values[state.session]
    facts = [system.facts(side) for side in state.sides]
    for part, fact in zip(session.parts, facts, strict=True):
        if part.end is PartEnd.FREED and not fact.ended:
            return f"{part.node} counts as freed, and could be sold, while it is in use"
        if fact.went_back and fact.terminated:
            return f"{part.node} accepted the cancel and was terminated all the same"
    if session.state is SessionState.FREED and not all(fact.ended for fact in facts):
        return "the session is freed, its devices are not"
    if session.state is SessionState.CANCELLED and any(fact.terminated for fact in facts):
        return "the cancel was accepted, and a part was terminated"
    if any(f.terminated for f in facts) and any(f.went_back for f in facts):
        return "one part of the gang was terminated, another went back"
    return None


def fault_of_move(system: System, move: Move) -> str | None:
    """Return what must never happen, and does."""
    if move.before is None or move.before == move.state.session:
        return None
    before = system.sessions.values[move.before]
    after = system.sessions.values[move.state.session]
    if before.is_ended and (after.state is not before.state or ENDS.intersection(move.said)):
        return f"a session that was {before.state} ended again as {after.state}"
    for old, new in zip(before.parts, after.parts, strict=True):
        closed = old.end in {PartEnd.FREED, PartEnd.GONE}
        if closed and new.end is not old.end:
            return f"{old.node} was freed twice"
        if before.is_ended and old.command is None and new.command is not None:
            return f"{old.node} is told something although all was over"
    return None


def fault_of_end(system: System, state: State) -> str | None:
    """Return what is wrong with a state in which nothing more happens by itself."""
    session = system.sessions.values[state.session]
    if not session.is_ended:
        return f"nothing more happens, and the session is {session.state}"
    for side, part in zip(state.sides, session.parts, strict=True):
        fact = system.facts(side)
        if fact.holds:
            return f"{part.node} holds still for ever"
    return None


def some_circle(onward: "list[array[int]]") -> int | None:
    """Return a state from which what must happen can go on for ever; None: there is none."""
    incoming = array("I", bytes(4 * len(onward)))
    for row in onward:
        for after in row:
            incoming[after] += 1
    free = deque(number for number, before in enumerate(incoming) if before == 0)
    left = len(onward)
    while free:
        left -= 1
        for after in onward[free.popleft()]:
            incoming[after] -= 1
            if incoming[after] == 0:
                free.append(after)
    return next((n for n, before in enumerate(incoming) if before > 0), None) if left else None
