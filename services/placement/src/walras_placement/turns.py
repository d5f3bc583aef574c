"""The turn of a job in which nothing of its team may overtake it (rounding ``release``).

Clearing offers nothing else of its team then, and here nothing starts behind it (decision 20). Once
a turn began it does not depend on what could overtake the job just now.
"""

from collections.abc import Iterable
from typing import Final

from walras_contracts.accounts import Rounding
from walras_contracts.identifiers import job_key
from walras_contracts.placing import PlacementMeasured
from walras_contracts.work import JobState
from walras_placement.devices import DevicePool
from walras_placement.jobs import Job
from walras_placement.keeping import covers
from walras_placement.policies import Policies
from walras_placement.rooms import Rooms
from walras_placement.rules import Moment, Rules
from walras_placement.setting_aside import fitting_macc
from walras_placement.state import PlacementState
from walras_placement.writer import Writer

TURN_AFTER_CYCLES: Final = 20
"""So long smaller jobs of its team may overtake the first job of a queue."""
TURN_CYCLES: Final = 480
"""So long its turn lasts, and so long the pause after it: a job that can never start must not keep
its team from working for ever."""


def has_turn(waited_cycles: int) -> bool:
    """Whether a job that others could overtake has waited so long that none may now."""
    turns, _ = divmod(waited_cycles - TURN_AFTER_CYCLES, TURN_CYCLES)
    return turns >= 0 and turns % 2 == 0


def note_turns(state: PlacementState, writer: Writer, told: Iterable[PlacementMeasured]) -> None:
    """Remember with the jobs which turns begin, and that others end: those not told any more."""
    heads = (head for figures in told for head in figures.stuck if head.has_turn)
    in_turn = {job_key(head.team, head.job): None for head in heads}
    for key in sorted({**in_turn, **state.turns}):
        job = state.jobs.get(key)
        if job is None or job.state is not JobState.PENDING:
            state.turns.pop(key, None)
            continue
        began = is_in_turn(job, writer.moment, writer.rules)
        if began != (key in in_turn):
            job.turn_since_step = None if began else writer.moment.step
            writer.changed[key] = None
            state.later[job.team] = None
        if job.turn_since_step is None:
            state.turns.pop(key, None)
        else:
            state.turns[key] = None


def is_in_turn(job: Job, moment: Moment, rules: Rules) -> bool:
    """Whether a turn of a pending job began, and is not over."""
    since_step = job.turn_since_step
    if since_step is None or since_step < job.pending_since_step:
        return False
    return moment.step < turn_ends_step(job, rules)


def turn_ends_step(job: Job, rules: Rules) -> int:
    """Return the step in which the last turn of a job that had one is over."""
    since_step = job.turn_since_step
    assert since_step is not None
    waited_cycles = (since_step - job.pending_since_step) // rules.cycle_every
    number = (waited_cycles - TURN_AFTER_CYCLES) // TURN_CYCLES
    ends_cycles = TURN_AFTER_CYCLES + (number + 1) * TURN_CYCLES
    return job.pending_since_step + rules.steps(ends_cycles)


def held_up(job: Job, rooms: Rooms, pool: DevicePool, policies: Policies) -> list[str]:
    """Return the markets in which nothing starts behind a job in its turn: those it could use.

    Clearing would only have it leave again.
    """
    entry = job.entry()
    return [
        kind
        for kind in entry.types
        if kind in rooms
        and policies.rounding(kind) is Rounding.RELEASE
        and covers(entry, rooms[kind].price_micro)
        and entry.size_macc <= fitting_macc(pool, kind, entry)
    ]
