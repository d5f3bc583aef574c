"""A model of an agent: the protocol of decision 17 and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tests.simulation.drains.agent_port import Facts, Possible, Word
from walras_contracts.drains import DrainCommand
from walras_contracts.work import DrainState, LeaseState


class Phase(StrEnum):
    """Where a part stands."""

    RUNNING = "running"
    WARNED = "warned"
    WAITING = "waiting"
    HOLDING = "cancelling"
    TERMINATING = "terminating"
    VERIFYING = "verifying"
    STUCK = "failed"
    FREED = "freed"


BEFORE = (Phase.RUNNING, Phase.WARNED, Phase.WAITING, Phase.HOLDING)


@dataclass(frozen=True, slots=True)
class Agent:
    """The part of an agent; ``told``: it was told to drain."""

    gang: bool
    phase: Phase = Phase.RUNNING
    told: bool = False
    went_back: bool = False
    terminated: bool = False


class ModelAgents:
    """The agent side as a model."""

    def begin(self, *, gang: bool) -> Agent:
        return Agent(gang)

    def obey(self, agent: Agent, command: DrainCommand | None) -> tuple[Agent, list[Word]]:
        if command is None:
            holds = agent.phase is Phase.HOLDING
            return (replace(agent, phase=Phase.RUNNING) if holds else agent), []
        if agent.phase not in BEFORE:
            late = command in {DrainCommand.CANCEL, DrainCommand.CONFIRM} and not agent.went_back
            return agent, say(agent, "cancel_rejected" if late else "")
        if command in {DrainCommand.CANCEL, DrainCommand.CONFIRM}:
            return self.call_back(agent, command)
        if agent.went_back:
            return agent, [Word(DrainState.CANCELLED)]
        if agent.phase is Phase.RUNNING or command is DrainCommand.RESUME:
            held = agent.phase is Phase.HOLDING
            begins = agent.phase is Phase.RUNNING or held
            phase = Phase.WARNED if begins else agent.phase
            return tell(replace(agent, phase=phase, told=True))
        return agent, say(agent)

    def call_back(self, agent: Agent, command: DrainCommand) -> tuple[Agent, list[Word]]:
        """Go back; a part of a gang only holds still until the cancel is confirmed."""
        if agent.gang and command is DrainCommand.CANCEL and not agent.went_back:
            return tell(replace(agent, phase=Phase.HOLDING))
        back = replace(agent, phase=Phase.RUNNING, went_back=True, told=False)
        return back, [Word(DrainState.CANCELLED)]

    def moves(self, agent: Agent) -> Sequence[Possible]:
        found = []
        if agent.phase is Phase.WARNED:
            found.append(Possible("save", must=False))
        if agent.phase in {Phase.WARNED, Phase.WAITING}:
            found.append(Possible("warning_over", must=True))
        if agent.phase in BEFORE or agent.phase is Phase.TERMINATING:
            found.append(Possible("exit", must=agent.phase is Phase.TERMINATING))
        if agent.phase in {Phase.VERIFYING, Phase.STUCK}:
            found.append(Possible("devices_free", must=False))
        if agent.phase is Phase.VERIFYING:
            found.append(Possible("verify_over", must=True))
        return found

    def move(self, agent: Agent, name: str) -> tuple[Agent, list[Word]]:
        match name:
            case "save":
                return tell(replace(agent, phase=Phase.WAITING))
            case "warning_over":
                return tell(replace(agent, phase=Phase.TERMINATING, terminated=True))
            case "exit":
                return tell(replace(agent, phase=Phase.VERIFYING))
            case "verify_over":
                return tell(replace(agent, phase=Phase.STUCK))
            case _:
                was_stuck = agent.phase is Phase.STUCK
                freed = replace(agent, phase=Phase.FREED)
                return freed, [*([] if was_stuck else say(freed)), Word(None, LeaseState.FREED)]

    def restart(self, agent: Agent, *, found: bool) -> tuple[Agent, list[Word]]:
        if found or agent.phase in {Phase.FREED, Phase.VERIFYING, Phase.STUCK}:
            return agent, []
        return tell(replace(agent, phase=Phase.VERIFYING))

    def facts(self, agent: Any) -> Facts:
        return Facts(
            agent.phase is Phase.FREED,
            agent.terminated,
            agent.went_back,
            agent.phase is Phase.HOLDING,
        )


def say(agent: Agent, outcome: str = "") -> list[Word]:
    """Return what an agent says of where its drain stands; without a drain, nothing."""
    if agent.phase is Phase.RUNNING or not (agent.told or agent.phase is Phase.HOLDING or outcome):
        return []
    if agent.phase is Phase.STUCK:
        outcome = outcome or "device_not_freed"
    return [Word(DrainState(agent.phase.value), outcome=outcome)]


def tell(agent: Agent) -> tuple[Agent, list[Word]]:
    return agent, say(agent)
