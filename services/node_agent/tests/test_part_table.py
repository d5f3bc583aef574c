"""The table of a part's life, pair by pair."""

from pathlib import Path

from walras_node_agent.part_life import COMMITTED, LEAVING, OVER
from walras_node_agent.part_table import TABLE, Effect, PartEvent, PartState, grid

GOLDEN = Path(__file__).with_name("part_grid.txt")


def test_the_table_is_the_one_that_was_agreed_on_pair_by_pair() -> None:
    assert grid().splitlines() == GOLDEN.read_text("utf-8").splitlines()


def test_every_pair_of_state_and_event_has_one_answer() -> None:
    assert set(TABLE) == set(PartState)
    for state, row in TABLE.items():
        assert set(row) == set(PartEvent), state
        for answer in row.values():
            # A pair that changes nothing says why, or is there to be noted only.
            assert not (answer.because and answer.effects)


def test_what_is_committed_never_runs_again() -> None:
    for state in COMMITTED:
        for event, answer in TABLE[state].items():
            assert answer.state is None or answer.state in COMMITTED, (state, event)


def test_a_part_is_terminated_by_its_deadline_its_end_or_the_end_of_its_lease_alone() -> None:
    deadly = {
        (state, event)
        for state, row in TABLE.items()
        for event, answer in row.items()
        if {Effect.TERMINATE, Effect.KILL} & set(answer.effects) and state not in COMMITTED
    }
    assert {event for _, event in deadly} == {
        *(PartEvent.WARNING_OVER, PartEvent.EXITED, PartEvent.LEASE_ENDED)
    }
    assert (PartState.CANCELLING, PartEvent.WARNING_OVER) not in deadly


def test_only_free_devices_free_a_part() -> None:
    for state, row in TABLE.items():
        for event, answer in row.items():
            if answer.state is PartState.FREED and state is not PartState.FREED:
                assert event is PartEvent.DEVICE_FREE_AGAIN
                assert state in {PartState.VERIFYING, PartState.STUCK}


def test_every_state_can_be_reached_and_left() -> None:
    reached = {PartState.ACCEPTED, PartState.REFUSED}
    for _ in PartState:
        reached |= {
            answer.state
            for state in reached
            for answer in TABLE[state].values()
            if answer.state is not None
        }
    assert reached == set(PartState)
    for state, row in TABLE.items():
        assert any(answer.state is not state for answer in row.values()), state
    assert set(PartState) > LEAVING | COMMITTED | OVER
