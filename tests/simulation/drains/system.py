"""Drain, the log and the agents as one system of states and moves, for one lease.

Whatever a state is made of is kept once and named by a number, and what follows from it is worked
out once: so a state is a few numbers, and most moves are looked up.

A gang has too many states to visit each. It is checked *coarsely*: what no decision of the protocol
looks at is taken off (:mod:`tests.simulation.drains.coarse`), and the parts of a gang change places
where that gives a state that was met.
"""

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tests.simulation.drains.agent_port import AgentPort, Facts, Word
from tests.simulation.drains.coarse import (
    coarse_session,
    coarse_words,
    with_parts_swapped,
    words_after_the_end,
)
from walras_contracts.drains import DrainCommand, SessionState, VacateReason
from walras_contracts.work import LeaseState
from walras_drain import sessions
from walras_drain.parts import Part, Said
from walras_drain.session import Reaction, Session, Timeline
from walras_drain.session_records import dump, parse
from walras_drain.transitions import Effect

NOW_MS: Final = 0
"""Time stands still; the deadline passes when the check lets it."""
TIMELINE: Final = Timeline(60_000, 30_000, 10_000, 10_000)
UNREAD: Final = "unread"


class Core:
    """What drain does with a session: the functions of the service. Canaries break one of them."""

    def begin(self, session: Session) -> Reaction:
        return sessions.begun(session, TIMELINE, NOW_MS, NOW_MS + 100_000)

    def heard(self, session: Session, node: str, word: Word) -> Reaction:
        assert word.drain is not None
        return sessions.heard(session, node, Said(word.drain, word.outcome, NOW_MS), NOW_MS)

    def freed(self, session: Session, node: str) -> Reaction:
        return sessions.freed(session, node, NOW_MS, NOW_MS)

    def withdraw(self, session: Session) -> Reaction:
        return sessions.withdrawn(session, NOW_MS)

    def deadline(self, session: Session) -> Reaction:
        return sessions.deadline_passed(session, (), NOW_MS)

    def node_lost(self, session: Session, node: str) -> Reaction:
        return sessions.node_lost(session, node, NOW_MS)

    def restarted(self, session: Session) -> Session:
        """Return the session as a new process reads it back: drain may crash after every move."""
        return parse(session.session, dump(session))


class Budget(NamedTuple):
    """How often what may go wrong still does, and whether the lease may still be let stay."""

    lost: int = 0
    duplicated: int = 0
    agent_crashes: int = 0
    nodes_lost: int = 0
    withdrawals: int = 1


class Side(NamedTuple):
    """One part outside of drain: its agent, the command that this read last, and what it said of
    its drain and of its lease that drain has not read yet."""

    life: int
    read: DrainCommand | str | None
    drain_words: tuple[Word, ...]
    lease_words: tuple[Word, ...]


class State(NamedTuple):
    """Numbers of the session and of each side, and the budget."""

    session: int
    sides: tuple[int, ...]
    budget: Budget


class Turn(Enum):
    """Whether something happens on a node sooner or later, perhaps, or only by misfortune."""

    MUST = "must"
    MAY = "may"
    CRASH = "crash"


class Move(NamedTuple):
    """A move to another state; one that ``may`` happen need not. ``said``: effects of drain's."""

    name: str
    state: State
    may: bool = False
    before: int | None = None
    said: tuple[Effect, ...] = ()


Value = TypeVar("Value", bound=Hashable)


class Names(Generic[Value]):
    """Values by number."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class System:
    """All that can happen between drain and the agents of a lease with one part or two."""

    def __init__(
        self, parts: int, agents: AgentPort, core: Core, budget: Budget, *, coarse: bool = False
    ) -> None:
        self.parts = parts
        self.agents = agents
        self.core = core
        self.sessions: Names[Session] = Names()
        self.sides: Names[Side] = Names()
        self._budget = budget
        self._coarse = coarse
        self._lives: Names[Hashable] = Names()
        self._swapped: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._reactions: dict[tuple[Any, ...], tuple[int, tuple[Effect, ...]]] = {}
        self._turns: dict[tuple[Any, ...], list[tuple[str, int, Turn]]] = {}
        self._facts: dict[int, Facts] = {}

    def start(self) -> State:
        nodes = tuple(Part(f"n{index}") for index in range(self.parts))
        session = Session(
            *("s1", "l1", "t1", "p", "j1", 0, self.parts, 8000),
            *(VacateReason.QUOTA_LOST, nodes, NOW_MS, NOW_MS),
        )
        life = self._lives.number(self.agents.begin(gang=self.parts > 1))
        side = self.sides.number(Side(life, UNREAD, (), ()))
        return State(self.sessions.number(session), (side,) * self.parts, self._budget)

    def facts(self, side: int) -> Facts:
        """Return what is true on the node of a side."""
        found = self._facts.get(side)
        if found is None:
            life = self._lives.values[self.sides.values[side].life]
            found = self._facts[side] = self.agents.facts(life)
        return found

    def standing(self, state: State) -> State:
        """Return the state that stands for this one and for that with its parts swapped."""
        if not self._coarse or self.parts != 2:
            return state
        swapped = self._swapped.get(state.session)
        if swapped is None:
            swapped = self.sessions.number(with_parts_swapped(self.sessions.values[state.session]))
            self._swapped[state.session] = swapped
            self._swapped[swapped] = state.session
        first, second = state.sides
        if (swapped, second, first) < (state.session, first, second):
            return State(swapped, (second, first), state.budget)
        return state

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move out of a state."""
        session = self.sessions.values[state.session]
        budget = state.budget
        if session.state is SessionState.PENDING:
            yield self._drain(state, "the guardrail lets it begin", self.core.begin)
        elif not session.is_ended:
            yield self._drain(state, "its deadline passes", self.core.deadline)
        if budget.withdrawals:
            spent = State(
                state.session,
                state.sides,
                budget._replace(withdrawals=budget.withdrawals - 1),
            )
            move = self._drain(spent, "placement lets it stay", self.core.withdraw)
            yield move._replace(may=True)
        for place in range(self.parts):
            yield from self._reading(state, place)
            yield from self._turning(state, session, place)
            if budget.nodes_lost:
                node = f"n{place}"
                less = budget._replace(nodes_lost=budget.nodes_lost - 1)
                after = State(state.session, state.sides, less)
                move = self._drain(
                    after,
                    f"{node}: it is silent for too long",
                    partial(self._silent, node),
                )
                yield move._replace(may=True)

    def _silent(self, node: str, session: Session) -> Reaction:
        return self.core.node_lost(session, node)

    def _reading(self, state: State, place: int) -> Iterator[Move]:
        """Yield what drain may read of a side, and what may become of it on the way."""
        side = self.sides.values[state.sides[place]]
        node = f"n{place}"
        if side.drain_words:
            word, *rest = side.drain_words
            yield from self._delivered(
                state,
                place,
                (
                    side._replace(drain_words=tuple(rest)),
                    side._replace(drain_words=(*rest, word)),
                ),
                f"{node}: drain reads {word.drain} {word.outcome}",
                lambda session: self.core.heard(session, node, word),
            )
        if side.lease_words:
            word, *rest = side.lease_words
            yield from self._delivered(
                state,
                place,
                (
                    side._replace(lease_words=tuple(rest)),
                    side._replace(lease_words=(*rest, word)),
                ),
                f"{node}: drain reads that its lease is {word.lease}",
                (lambda session: self.core.freed(session, node))
                if word.lease is LeaseState.FREED
                else Reaction,
            )

    def _delivered(
        self,
        state: State,
        place: int,
        sides: tuple[Side, Side],
        name: str,
        react: Callable[[Session], Reaction],
    ) -> Iterator[Move]:
        """Yield that drain reads a word, that it is lost, that it comes once more later."""
        budget, (rest, repeated) = state.budget, sides
        without = _put(state.sides, place, self.sides.number(rest))
        yield self._drain(State(state.session, without, budget), name, react)
        if budget.lost:
            less = budget._replace(lost=budget.lost - 1)
            lost = State(state.session, without, less)
            yield Move(name.replace("drain reads", "lost is"), lost, may=True)
        if budget.duplicated:
            less = budget._replace(duplicated=budget.duplicated - 1)
            again = _put(state.sides, place, self.sides.number(repeated))
            move = self._drain(State(state.session, again, less), name, react)
            yield move._replace(name=f"{name}, and it is told again", may=True)

    def _turning(self, state: State, session: Session, place: int) -> Iterator[Move]:
        """Yield what the node of a side may do."""
        command, crashes = session.parts[place].command, state.budget.agent_crashes > 0
        key = (state.sides[place], command, session.is_ended, crashes)
        found = self._turns.get(key)
        if found is None:
            side = self.sides.values[state.sides[place]]
            found = self._turns[key] = list(
                self._turns_of(side, command, ended=session.is_ended, crashes=crashes)
            )
        for name, side_after, turn in found:
            budget = state.budget
            if turn is Turn.CRASH:
                budget = budget._replace(agent_crashes=budget.agent_crashes - 1)
            after = State(state.session, _put(state.sides, place, side_after), budget)
            yield Move(f"n{place}: {name}", after, may=turn is not Turn.MUST)

    def _turns_of(
        self, side: Side, command: DrainCommand | None, *, ended: bool, crashes: bool
    ) -> Iterator[tuple[str, int, Turn]]:
        agent = self._lives.values[side.life]
        if side.read is not command and not (command is None and side.read == UNREAD):
            after, words = self.agents.obey(agent, command)
            read = side._replace(read=command)
            name = f"its agent reads {command.value if command else 'that nothing stands'}"
            yield name, self._side(read, after, words, ended=ended), Turn.MUST
        for name, must in self.agents.moves(agent):
            after, words = self.agents.move(agent, name)
            yield name, self._side(side, after, words, ended=ended), Turn.MUST if must else Turn.MAY
        if crashes:
            for found in (True, False):
                after, words = self.agents.restart(agent, found=found)
                name = f"its agent comes back, the processes {'live' if found else 'died'}"
                unread = side._replace(read=UNREAD)
                yield name, self._side(unread, after, words, ended=ended), Turn.CRASH

    def _side(self, side: Side, agent: Hashable, words: list[Word], *, ended: bool) -> int:
        of_drain = tuple(word for word in words if word.drain is not None)
        of_lease = tuple(word for word in words if word.drain is None)
        if self._coarse:
            of_drain = coarse_words(side.drain_words, of_drain, ended=ended)
            of_lease = tuple(word for word in of_lease if word.lease is LeaseState.FREED)
        return self.sides.number(
            Side(
                self._lives.number(agent),
                side.read,
                (*side.drain_words, *of_drain),
                (*side.lease_words, *of_lease),
            )
        )

    def _drain(self, state: State, name: str, react: Callable[[Session], Reaction]) -> Move:
        """Let drain do something; the name of a move and the session say all that it depends on."""
        key = (state.session, name)
        found = self._reactions.get(key)
        if found is None:
            reaction = react(self.sessions.values[state.session])
            after = self.core.restarted(reaction.session)
            if self._coarse:
                after = coarse_session(after)
            found = self._reactions[key] = (self.sessions.number(after), reaction.effects)
        sides = state.sides
        if self._coarse and self.sessions.values[found[0]].is_ended:
            sides = tuple(map(self._after_the_end, sides))
        return Move(name, State(found[0], sides, state.budget), before=state.session, said=found[1])

    def _after_the_end(self, number: int) -> int:
        found = self._ended.get(number)
        if found is None:
            side = self.sides.values[number]
            kept = words_after_the_end(side.drain_words)
            found = self._ended[number] = self.sides.number(side._replace(drain_words=kept))
        return found


def _put(row: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*row[:place], value, *row[place + 1 :])
