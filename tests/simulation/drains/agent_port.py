"""What the model check asks of the agent side: small enough for a model, and for the real core."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from walras_contracts.drains import DrainCommand
from walras_contracts.work import DrainState, LeaseState

SESSION = "s1"


class Word(NamedTuple):
    """What an agent says: of the drain, or of the lease (then ``drain`` is None)."""

    drain: DrainState | None
    lease: LeaseState | None = None
    outcome: str = ""


class Possible(NamedTuple):
    """What can happen on a node; ``must``: sooner or later it does, if nothing else does."""

    name: str
    must: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true on the node, whoever says what of it.

    ``ended``: nothing of the part runs, and its devices are free. ``terminated``: the agent ended
    it for the drain. ``went_back``: the agent accepted the cancel. ``holds``: it holds still.
    """

    ended: bool
    terminated: bool
    went_back: bool
    holds: bool


class AgentPort(Protocol):
    """The agent of one node; its states are values."""

    def begin(self, *, gang: bool) -> Hashable:
        """Return the state of an agent whose part runs."""

    def obey(self, agent: Any, command: DrainCommand | None) -> tuple[Hashable, list[Word]]:
        """Read the command that stands; None: there is none any more."""

    def moves(self, agent: Any) -> Sequence[Possible]:
        """Return what can happen on the node by itself."""

    def move(self, agent: Any, name: str) -> tuple[Hashable, list[Word]]:
        """Let one of these happen."""

    def restart(self, agent: Any, *, found: bool) -> tuple[Hashable, list[Word]]:
        """Crash, and come back with the journal; the processes are there, or died with it."""

    def facts(self, agent: Any) -> Facts:
        """Return what is true."""
