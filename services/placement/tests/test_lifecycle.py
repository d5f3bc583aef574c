"""The table of a job's life, pair by pair."""

import pytest

from walras_contracts.work import JobState
from walras_placement.lifecycle import NEXT, JobEvent, State, next_state
from walras_runtime.errors import InvariantBrokenError

STATES: tuple[State, ...] = (None, *JobState)
# Rows: what happens. Columns: unknown, pending, running, draining, finished, cancelled.
# A dot is a pair that cannot be.
GRID = """
queued     pending .         .         .         .       .
granted    .       running   .         .         .       .
vacated    .       .         draining  draining  .       .
stayed     .       .         .         running   .       .
went_on    .       .         draining  draining  .       .
completed  .       .         finished  finished  .       .
returned   .       .         pending   pending   .       .
withdrawn  .       cancelled cancelled cancelled .       .
forgotten  .       unknown   .         .         unknown unknown
"""


def expected() -> dict[tuple[State, JobEvent], str]:
    cells = {}
    for line in GRID.strip().splitlines():
        event, *row = line.split()
        for state, cell in zip(STATES, row, strict=True):
            cells[state, JobEvent(event)] = cell
    return cells


@pytest.mark.parametrize("event", list(JobEvent))
@pytest.mark.parametrize("state", STATES)
def test_every_pair_of_state_and_event_has_one_answer(state: State, event: JobEvent) -> None:
    cell = expected()[state, event]
    if cell == ".":
        with pytest.raises(InvariantBrokenError):
            next_state(state, event)
    else:
        following = next_state(state, event)
        assert (following.value if following is not None else "unknown") == cell


def test_the_grid_names_every_pair_and_the_table_no_other() -> None:
    assert len(expected()) == len(STATES) * len(JobEvent)
    assert {pair for pair, cell in expected().items() if cell != "."} == set(NEXT)


def test_every_state_can_be_left_until_the_job_is_forgotten() -> None:
    reached: set[State] = {None}
    for _ in JobState:
        reached |= {after for (before, _), after in NEXT.items() if before in reached}
    assert reached == set(STATES)
    assert {state for state, _ in NEXT} == set(STATES)
