"""The agent side as the node agents run it: their pure core behind the port."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.simulation.drains.agent_port import SESSION, Facts, Possible, Word
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, DrainCommanded, VacateReason
from walras_contracts.work import DrainState, LeaseOutcome
from walras_node_agent.part_life import Deed, Happened, Life, Rules, TellDrain, TellLease
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import accepted, advance, due, of_command

RULES = Rules(leave_ms=2_000, terminate_ms=10_000, verify_ms=10_000)
NOW_MS = 0
"""Time stands still: what runs out does so when the check lets it, in any order."""
WITH_PROCESS = frozenset(
    {
        *(PartState.RUNNING, PartState.WARNED, PartState.CHECKPOINTING, PartState.WAITING),
        *(PartState.CANCELLING, PartState.TERMINATING, PartState.KILLING, PartState.STUCK),
    }
)
READING = frozenset({PartState.VERIFYING, PartState.STUCK})


@dataclass(frozen=True, slots=True)
class Agent:
    """The part's life, and what was done to it for a drain."""

    life: Life
    terminated: bool = False
    went_back: bool = False


class RealAgents:
    """The agent side as it is."""

    def __init__(self, drainability: Drainability) -> None:
        self._drainability = drainability

    def begin(self, *, gang: bool) -> Agent:
        life, _ = accepted(gang, self._drainability)
        agent = Agent(life)
        for event in (PartEvent.MAY_START, PartEvent.STARTED):
            agent, _ = happen(agent, Happened(event))
        return agent

    def obey(self, agent: Agent, command: DrainCommand | None) -> tuple[Agent, list[Word]]:
        if command is None:
            return happen(agent, Happened(PartEvent.SESSION_ENDED, SESSION))
        happened = of_command(agent.life, commanded(command))
        return (agent, []) if happened is None else happen(agent, happened)

    def moves(self, agent: Agent) -> Sequence[Possible]:
        life = agent.life
        found = []
        if life.state in {PartState.WARNED, PartState.CHECKPOINTING}:
            found.append(Possible("save", must=False))
        if life.state is PartState.WARNED:
            found.append(Possible("hook_accepted", must=False))
        if (runs_out := due(life)) is not None:
            found.append(Possible(runs_out[1].value, must=True))
        if life.state in WITH_PROCESS and not life.group_gone:
            found.append(Possible("exit", must=False))
        if life.state in READING and life.group_gone:
            found.append(Possible("devices_free", must=False))
        return found

    def move(self, agent: Agent, name: str) -> tuple[Agent, list[Word]]:
        if name == "exit":
            return happen(agent, Happened(PartEvent.GROUP_GONE, outcome=LeaseOutcome.VACATED))
        if name == "save":
            return happen(agent, Happened(PartEvent.SAVED, SESSION))
        if name == "devices_free":
            agent, _ = happen(agent, Happened(PartEvent.DEVICE_FREE))
            return happen(agent, Happened(PartEvent.DEVICE_FREE))
        return happen(agent, Happened(PartEvent(name), SESSION))

    def restart(self, agent: Agent, *, found: bool) -> tuple[Agent, list[Word]]:
        if agent.life.group_gone or agent.life.state is PartState.FREED:
            return agent, []
        event = PartEvent.FOUND if found else PartEvent.LOST
        return happen(agent, Happened(event, outcome=LeaseOutcome.VACATED))

    def facts(self, agent: Agent) -> Facts:
        life = agent.life
        return Facts(
            life.state is PartState.FREED,
            agent.terminated,
            agent.went_back,
            life.state is PartState.CANCELLING,
        )


def happen(agent: Agent, happened: Happened) -> tuple[Agent, list[Word]]:
    life, deeds = advance(agent.life, happened, NOW_MS, RULES)
    assert life is not None, "the record of the lease stands, so nothing is forgotten"
    before = agent.life.draining
    terminates = Effect.TERMINATE in deeds and before
    words = [word for deed in deeds if (word := spoken(deed)) is not None]
    back = any(word.drain is DrainState.CANCELLED for word in words)
    return (
        replace(
            agent,
            # Whether SIGKILL was needed is told, and decides nothing.
            life=replace(life, forced=False),
            terminated=agent.terminated or terminates,
            went_back=agent.went_back or back,
        ),
        words,
    )


def spoken(deed: Deed) -> Word | None:
    if isinstance(deed, TellDrain):
        return Word(deed.state, outcome=deed.outcome)
    if isinstance(deed, TellLease):
        return Word(None, deed.state)
    return None


def commanded(command: DrainCommand) -> DrainCommanded:
    return DrainCommanded(
        session=SESSION,
        lease="l1",
        node="n1",
        team="t1",
        pool="p",
        job="j1",
        command=command,
        reason=VacateReason.QUOTA_LOST,
        commanded_ms=0,
        warning_ms=60_000,
        terminate_ms=30_000,
        verify_ms=10_000,
        deadline_ms=100_000,
        billing_grace_ms=10_000,
    )
