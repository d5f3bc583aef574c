"""The table of a session's life, pair by pair."""

from pathlib import Path

import pytest

from walras_contracts.drains import SessionState
from walras_drain.transitions import ENDED, TABLE, Effect, SessionEvent

GRID = Path(__file__).with_name("session_table.txt")


def cell(state: SessionState, event: SessionEvent) -> str:
    """Return an answer in words: the next state and what is done, or why nothing is."""
    answer = TABLE[state, event]
    if answer.ignored:
        return f"- {answer.ignored}"
    todo = ", ".join(effect.value for effect in answer.effects)
    return f"{answer.state.value}{': ' if todo else ''}{todo}"


def grid() -> list[str]:
    return [
        f"{event.value:18} {state.value:14} {cell(state, event)}"
        for event in SessionEvent
        for state in SessionState
    ]


def test_every_pair_of_state_and_event_has_the_answer_that_was_agreed_on() -> None:
    """The grid is written by hand: a change of the table is a change of the grid."""
    assert grid() == GRID.read_text("utf-8").splitlines()


def test_the_table_answers_every_pair_with_an_effect_or_with_a_reason() -> None:
    assert set(TABLE) == {(state, event) for state in SessionState for event in SessionEvent}
    for (state, event), answer in TABLE.items():
        if answer.ignored:
            assert (answer.state, answer.effects) == (state, ()), event
        else:
            assert answer.effects or answer.state is not state, event


@pytest.mark.parametrize("state", ENDED)
def test_an_ended_session_does_nothing_but_end_its_commands(state: SessionState) -> None:
    for event in SessionEvent:
        answer = TABLE[state, event]
        assert answer.state is state
        assert set(answer.effects) <= {Effect.RELEASE}


def test_a_session_goes_forward_only_and_every_state_is_reached() -> None:
    order = list(SessionState)
    reached = {SessionState.PENDING}
    for _ in order:
        reached |= {TABLE[state, event].state for state in reached for event in SessionEvent}
    assert reached == set(SessionState)
    for (state, _), answer in TABLE.items():
        assert answer.state in ENDED or order.index(answer.state) >= order.index(state)


def test_every_open_session_that_has_begun_ends_at_its_deadline() -> None:
    for state in SessionState:
        if state is not SessionState.PENDING and state not in ENDED:
            answer = TABLE[state, SessionEvent.DEADLINE_PASSED]
            assert answer.state is SessionState.FAILED
