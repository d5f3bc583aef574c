"""Drains that are wrong in one way each: the check has to find every one."""

from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.drains.agent_port import Possible, Word
from tests.simulation.drains.model_agent import Agent, ModelAgents, Phase, tell
from tests.simulation.drains.system import Core
from walras_contracts.drains import DrainCommand, SessionState
from walras_contracts.work import DrainState
from walras_drain.session import Cancel, Reaction, Session
from walras_drain.transitions import Effect


class NoDeadline(Core):
    """Waits for agents for ever."""

    def deadline(self, session: Session) -> Reaction:
        return Reaction(session)


class NoResume(Core):
    """Leaves those that hold still alone when the deadline passes."""

    def deadline(self, session: Session) -> Reaction:
        reaction = super().deadline(session)
        parts = tuple(
            replace(after, command=before.command)
            for before, after in zip(session.parts, reaction.session.parts, strict=True)
        )
        return Reaction(replace(reaction.session, parts=parts), reaction.effects)


class EndsTwice(Core):
    """Takes a session that failed for freed when its devices are free at last."""

    def freed(self, session: Session, node: str) -> Reaction:
        reaction = super().freed(session, node)
        after = reaction.session
        if session.state is SessionState.FAILED and all(p.is_closed for p in after.parts):
            return Reaction(replace(after, state=SessionState.FREED), (Effect.TELL_ENDED,))
        return reaction


class TrustsDrainStatus(Core):
    """Takes the word of a drain for that of a lease: the process is gone, so the device is free."""

    def heard(self, session: Session, node: str, word: Word) -> Reaction:
        if word.drain is DrainState.VERIFYING:
            return self.freed(session, node)
        return super().heard(session, node, word)


class CancelsByItself(Core):
    """Takes a cancel for accepted as soon as it was asked for."""

    def withdraw(self, session: Session) -> Reaction:
        reaction = super().withdraw(session)
        if reaction.session.cancel is Cancel.ASKED:
            return Reaction(replace(reaction.session, state=SessionState.CANCELLED))
        return reaction


class OneHoldsForAll(Core):
    """Confirms the cancel of a gang when the first of its parts holds still."""

    def heard(self, session: Session, node: str, word: Word) -> Reaction:
        if word.drain is DrainState.CANCELLING:
            parts = tuple(replace(part, holds=True) for part in session.parts)
            session = replace(session, parts=parts)
        return super().heard(session, node, word)


class ForgetsTheCancel(Core):
    """Keeps in memory only that a cancel is open."""

    def restarted(self, session: Session) -> Session:
        after = super().restarted(session)
        return replace(after, cancel=Cancel.NONE) if after.cancel is Cancel.ASKED else after


class CommandsTheDead(Core):
    """Tells the agent of a session that is over to drain again, when its devices are free."""

    def freed(self, session: Session, node: str) -> Reaction:
        reaction = super().freed(session, node)
        if not session.is_ended:
            return reaction
        parts = tuple(replace(part, command=DrainCommand.DRAIN) for part in reaction.session.parts)
        return Reaction(replace(reaction.session, parts=parts), reaction.effects)


class SoloAgents(ModelAgents):
    """Agents that do not know what a gang is: each goes back by itself."""

    def call_back(self, agent: Agent, command: DrainCommand) -> tuple[Agent, list[Word]]:
        del command
        return super().call_back(agent, DrainCommand.CONFIRM)


class DeafTimers(ModelAgents):
    """Agents whose SIGTERM is due although the drain was cancelled."""

    def moves(self, agent: Agent) -> Sequence[Possible]:
        found = list(super().moves(agent))
        return (
            [*found, Possible("warning_over", must=True)]
            if agent.went_back and not agent.terminated
            else found
        )


class RestlessAgents(ModelAgents):
    """Agents that save again and again, and never come to an end."""

    def moves(self, agent: Agent) -> Sequence[Possible]:
        found = [Possible(name, must=True) for name, _ in super().moves(agent)]
        return (
            [*found, Possible("save_again", must=True)] if agent.phase is Phase.WAITING else found
        )

    def move(self, agent: Agent, name: str) -> tuple[Agent, list[Word]]:
        if name == "save_again":
            after, _ = tell(replace(agent, phase=Phase.WARNED))
            return after, []
        if name == "save":
            return replace(agent, phase=Phase.WAITING), []
        return super().move(agent, name)
