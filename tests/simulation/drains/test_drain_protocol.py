"""The protocol of drains, every interleaving of it: warn, save, exit, deadline, cancel, crashes of
agents and of drain, lost and repeated words, silent nodes; for one part and for a gang of two.

Checked in every state, in every move and at every end: a session ends, and nothing goes on for
ever; nothing is freed twice, or before it is verified free; an accepted cancel is never followed by
a kill (R19); no gang is left half.
"""

import random

import pytest

from tests.simulation.drains import broken
from tests.simulation.drains.agent_port import AgentPort
from tests.simulation.drains.explorer import (
    BrokenError,
    explore,
    fault_of_end,
    fault_of_move,
    fault_of_state,
)
from tests.simulation.drains.model_agent import ModelAgents
from tests.simulation.drains.real_agent import RealAgents
from tests.simulation.drains.system import Budget, Core, System
from walras_contracts.demand import Drainability
from walras_contracts.drains import SessionState
from walras_drain.transitions import BEFORE_COMMITMENT, COMMITTED, ENDED, TABLE, SessionEvent

MODEL = ModelAgents()
REAL = RealAgents(Drainability.RESTART)
REAL_SAVING = RealAgents(Drainability.CHECKPOINT)
ALL_ONCE = Budget(lost=1, duplicated=1, agent_crashes=1, nodes_lost=1)
NO_FAULT = Budget()
LOST = Budget(lost=1)
REPEATED = Budget(duplicated=1)
CRASH = Budget(agent_crashes=1)
SILENT = Budget(nodes_lost=1)


def check(parts: int, agents: AgentPort, budget: Budget, *, coarse: bool) -> None:
    found = explore(System(parts, agents, Core(), budget, coarse=coarse))
    print(f"{type(agents).__name__}, {parts} parts, {budget}: {found}")
    assert found.cancelled > 0
    assert found.failed > 0


@pytest.mark.parametrize("agents", [MODEL, REAL, REAL_SAVING], ids=["model", "real", "saving"])
@pytest.mark.parametrize("budget", [LOST, REPEATED, CRASH, SILENT], ids=str)
def test_one_part_keeps_its_promises_in_every_order_of_events(
    agents: AgentPort, budget: Budget
) -> None:
    check(1, agents, budget, coarse=True)


def test_one_part_keeps_its_promises_with_all_its_states_told_apart() -> None:
    check(1, MODEL, CRASH, coarse=False)


@pytest.mark.parametrize("budget", [LOST, REPEATED, CRASH], ids=str)
def test_a_gang_of_two_keeps_its_promises_in_every_order_of_events(budget: Budget) -> None:
    check(2, MODEL, budget, coarse=True)


def test_a_gang_on_the_core_of_the_real_agents_keeps_its_promises() -> None:
    check(2, REAL, NO_FAULT, coarse=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("budget", [LOST, REPEATED, CRASH, SILENT], ids=str)
@pytest.mark.parametrize("agents", [MODEL, REAL, REAL_SAVING], ids=["model", "real", "saving"])
def test_a_gang_keeps_its_promises_whatever_goes_wrong_once(
    agents: AgentPort, budget: Budget
) -> None:
    check(2, agents, budget, coarse=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "budget",
    [
        *(Budget(lost=1, duplicated=1), Budget(lost=1, agent_crashes=1), Budget(lost=2)),
        *(Budget(agent_crashes=2), Budget(duplicated=1, agent_crashes=1)),
    ],
    ids=str,
)
def test_a_gang_of_two_keeps_its_promises_when_two_things_go_wrong(budget: Budget) -> None:
    check(2, MODEL, budget, coarse=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("agents", [MODEL, REAL, REAL_SAVING], ids=["model", "real", "saving"])
def test_one_part_keeps_its_promises_when_everything_goes_wrong(agents: AgentPort) -> None:
    check(1, agents, ALL_ONCE, coarse=True)


@pytest.mark.parametrize("agents", [MODEL, REAL_SAVING], ids=["model", "saving"])
def test_walks_through_what_is_too_large_to_visit_keep_the_promises_too(
    agents: AgentPort, global_random_seed: int
) -> None:
    """All states told apart, two of every fault: chosen at random, to the end of each walk."""
    print(f"seed {global_random_seed}")
    chooser = random.Random(global_random_seed)
    budget = Budget(lost=2, duplicated=2, agent_crashes=2, nodes_lost=1)
    system = System(2, agents, Core(), budget)
    ends = dict.fromkeys(SessionState, 0)
    for _ in range(600):
        state = system.start()
        while moves := [move for move in system.moves(state) if move.state != state]:
            fair = [move for move in moves if not move.may]
            if not fair:
                assert fault_of_end(system, state) is None
            move = chooser.choice(moves if not fair or chooser.random() < 0.5 else fair)
            assert fault_of_move(system, move) is None, move
            state = move.state
            assert fault_of_state(system, state) is None
        assert fault_of_end(system, state) is None
        ends[system.sessions.values[state.session].state] += 1
    print({state.value: count for state, count in ends.items() if count})
    assert min(ends[state] for state in ENDED) > 0


def test_what_is_taken_off_for_gangs_decides_nothing() -> None:
    """The states that the coarse check takes for one have the same answers, but for their names."""
    said = {event for event in SessionEvent if event.value.startswith("said_")}
    said.discard(SessionEvent.SAID_FAILED)
    for alike in (BEFORE_COMMITMENT, COMMITTED):
        for event in SessionEvent:
            if event not in said:
                answers = [TABLE[state, event] for state in alike]
                stays = [
                    answer.state is state for answer, state in zip(answers, alike, strict=True)
                ]
                assert len(set(stays)) == 1, event
                assert len({answer.effects for answer in answers}) == 1, event
                if not stays[0]:
                    assert len({answer.state for answer in answers}) == 1, event


CANARIES = [
    pytest.param(1, MODEL, broken.NoDeadline(), LOST, "nothing more happens", id="no deadline"),
    pytest.param(1, broken.RestlessAgents(), Core(), NO_FAULT, "for ever", id="restless"),
    pytest.param(1, MODEL, broken.EndsTwice(), NO_FAULT, "ended again", id="ends twice"),
    pytest.param(1, MODEL, broken.CommandsTheDead(), NO_FAULT, "told something", id="commands"),
    pytest.param(1, MODEL, broken.TrustsDrainStatus(), NO_FAULT, "while it is in use", id="trusts"),
    pytest.param(
        1, MODEL, broken.CancelsByItself(), NO_FAULT, "a part was terminated", id="by itself"
    ),
    pytest.param(
        1, broken.DeafTimers(), Core(), NO_FAULT, "was terminated all the same", id="deaf timers"
    ),
    pytest.param(2, MODEL, broken.OneHoldsForAll(), NO_FAULT, "a part was terminated", id="one"),
    pytest.param(2, broken.SoloAgents(), Core(), NO_FAULT, "another went back", id="solo agents"),
    pytest.param(2, MODEL, broken.NoResume(), LOST, "holds still for ever", id="no resume"),
    pytest.param(
        2, MODEL, broken.ForgetsTheCancel(), NO_FAULT, "holds still for ever", id="forgets"
    ),
]


@pytest.mark.parametrize(("parts", "agents", "core", "budget", "words"), CANARIES)
def test_the_check_sees_what_is_broken(
    parts: int, agents: AgentPort, core: Core, budget: Budget, words: str
) -> None:
    coarse = not isinstance(core, broken.TrustsDrainStatus)
    with pytest.raises(BrokenError, match=words) as found:
        explore(System(parts, agents, core, budget, coarse=coarse))
    print(found.value)
