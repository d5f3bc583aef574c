"""One part of a lease on its node: which state follows, what is to be done, what runs out when.

Pure: no clock, no process. The simulated fleet hands market time in, an agent a monotonic clock.
The states and the answers stand in :mod:`walras_node_agent.part_table`, what a part knows in
:mod:`walras_node_agent.part_life`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, DrainCommanded
from walras_contracts.work import DrainState, LeaseOutcome, LeaseState
from walras_node_agent.part_facts import as_counted, noted
from walras_node_agent.part_life import (
    LEAVING,
    OVER,
    CallOff,
    Deed,
    Happened,
    Life,
    Rules,
    TellDrain,
    TellLease,
    Timeline,
    Warn,
    fresh,
)
from walras_node_agent.part_table import TABLE, Effect, PartEvent, PartState

DEVICE_NOT_FREED: Final = "device_not_freed"
CANCEL_REJECTED: Final = "cancel_rejected"
FORCED: Final = "forced"
LEASE_STATES: Final[Mapping[PartState, LeaseState]] = {
    PartState.ACCEPTED: LeaseState.ACCEPTED,
    PartState.RUNNING: LeaseState.RUNNING,
    PartState.STUCK: LeaseState.STUCK,
    PartState.FREED: LeaseState.FREED,
    PartState.REFUSED: LeaseState.FREED,
}
"""What is told of a lease whose part comes into a state."""
DRAIN_STATES: Final[Mapping[PartState, DrainState]] = {
    PartState.WARNED: DrainState.WARNED,
    PartState.CHECKPOINTING: DrainState.CHECKPOINTING,
    PartState.WAITING: DrainState.WAITING,
    PartState.CANCELLING: DrainState.CANCELLING,
    PartState.TERMINATING: DrainState.TERMINATING,
    PartState.KILLING: DrainState.TERMINATING,
    PartState.VERIFYING: DrainState.VERIFYING,
    PartState.STUCK: DrainState.FAILED,
    PartState.FREED: DrainState.FREED,
    PartState.REFUSED: DrainState.FREED,
}
"""What is told of a drain whose part is in a state."""
_HELD: Final = PartState.CANCELLING
_OF_DRAINS: Final = frozenset(
    {
        *(Effect.TELL_DRAIN, Effect.TELL_HOLDING, Effect.TELL_CANCELLED, Effect.TELL_REJECTED),
        Effect.END_OLDER,
    }
)


def accepted(gang: bool, drainability: Drainability) -> tuple[Life, list[Deed]]:
    """Return a part that holds its devices from now on, and what is told of it."""
    life = fresh(gang, drainability)
    return life, [_tell_lease(life)]


def refused(gang: bool, drainability: Drainability, detail: str) -> tuple[Life, list[Deed]]:
    """Return a part whose devices are not free, and what is told of it."""
    outcome = LeaseOutcome.REFUSED
    life = Life(gang, drainability, PartState.REFUSED, outcome=outcome, detail=detail)
    return life, [_tell_lease(life)]


@lru_cache(64)
def started(life: Life, rules: Rules) -> tuple[Life, TellLease]:
    """Return an accepted part once it runs, and what is told of it; they are all alike."""
    starting, _ = advance(life, Happened(PartEvent.MAY_START), 0, rules)
    assert starting is not None
    running, deeds = advance(starting, Happened(PartEvent.STARTED), 0, rules)
    assert running is not None
    (told,) = deeds
    assert isinstance(told, TellLease)
    return running, told


def of_command(life: Life, command: DrainCommanded) -> Happened | None:
    """Return what a command is to a part; None where it speaks of a drain that is over.

    The last command of a lease counts, so a part may hear of a drain by its cancel first: it is
    cancelled all the same. A cancel of another drain than the one that it is in means nothing.
    """
    timeline = Timeline.of(command)
    said = command.command
    knows = life.knows(timeline.session)
    begun = knows and (life.draining or life.cancelled_ms is not None or life.state is _HELD)
    if (not knows and said is DrainCommand.DRAIN) or (not begun and said is DrainCommand.RESUME):
        # Of a drain that has not begun here, `resume` says the same as the command itself.
        unsaved = life.drainability is Drainability.RESTART
        event = PartEvent.DRAIN_UNSAVED if unsaved else PartEvent.DRAIN
    elif said is DrainCommand.DRAIN:
        event = PartEvent.DRAIN_AGAIN
    elif said is DrainCommand.RESUME:
        nothing_left = life.saved or life.drainability is Drainability.RESTART
        event = PartEvent.RESUME_SAVED if nothing_left else PartEvent.RESUME
    elif not knows and (life.draining or life.state is _HELD):
        return None
    elif said is DrainCommand.CONFIRM:
        event = PartEvent.CONFIRM
    else:
        over = knows and life.cancelled_ms is not None
        event = PartEvent.CANCEL_GANG if life.gang and not over else PartEvent.CANCEL
    return Happened(event, timeline.session, timeline)


def due(life: Life) -> tuple[int, PartEvent] | None:
    """Return what runs out next of a part, and when; None where nothing does."""
    if life.state in LEAVING and life.leave_ms is not None:
        return life.leave_ms, PartEvent.WARNING_OVER
    if life.state is PartState.TERMINATING and life.kill_ms is not None:
        return life.kill_ms, PartEvent.TERMINATE_OVER
    if life.state in {PartState.KILLING, PartState.VERIFYING} and life.verify_ms is not None:
        return life.verify_ms, PartEvent.VERIFY_OVER
    return None


def advance(
    life: Life, happened: Happened, now_ms: int, rules: Rules
) -> tuple[Life | None, list[Deed]]:
    """Take an event.

    Parameters
    ----------
    life
        The part as it was.
    happened
        The event.
    now_ms
        When, by the caller's clock.
    rules
        How long the steps take that no command says anything of.

    Returns
    -------
    tuple
        The part as it is, None once it is forgotten; and what is to be done, in order.
    """
    counted = as_counted(life, happened)
    if counted is None:
        return life, []
    answer = TABLE[life.state][counted.event]
    if answer.state is None:
        return None, [Effect.FORGET]
    after = replace(noted(life, counted, now_ms, rules), state=answer.state)
    if counted.event is PartEvent.SAVED and after.state is PartState.WAITING:
        after = _leaving_soon(after, now_ms, rules)
    after = _with_deadlines(life, after, now_ms, rules)
    deeds = [
        deed
        for effect in answer.effects
        if (deed := _deed(effect, life, after, counted, now_ms)) is not None
    ]
    return _followed(life, after, deeds, now_ms, rules)


def _leaving_soon(life: Life, now_ms: int, rules: Rules) -> Life:
    """Return a part whose job has saved all. Those of a gang may save together: none ends early."""
    if life.gang or life.leave_ms is None:
        return life
    return replace(life, leave_ms=min(life.leave_ms, now_ms + rules.leave_ms))


def _with_deadlines(before: Life, after: Life, now_ms: int, rules: Rules) -> Life:
    """Return the part with what runs out in its state."""
    terms = after.drain if after.draining else None
    if after.state in LEAVING and terms is not None and after.leave_ms is None:
        return replace(after, leave_ms=now_ms + terms.warning_ms)
    if after.state is before.state:
        return after
    verify_ms = now_ms + (rules.verify_ms if terms is None else terms.verify_ms)
    if after.state is PartState.TERMINATING:
        terminate_ms = rules.terminate_ms if terms is None else terms.terminate_ms
        after = replace(after, kill_ms=now_ms + terminate_ms)
    elif after.state is PartState.KILLING:
        after = replace(after, verify_ms=verify_ms, forced=True, free_reads=0)
    elif after.state is PartState.VERIFYING and before.state is PartState.ACCEPTED:
        gone = LeaseOutcome.VACATED
        after = replace(after, verify_ms=verify_ms, group_gone=True, outcome=gone)
    elif after.state is PartState.VERIFYING and before.state is not PartState.KILLING:
        # After SIGKILL, what that needs is part of the time in which its devices have to be free.
        after = replace(after, verify_ms=verify_ms)
    return after


def _deed(
    effect: Effect, before: Life, after: Life, happened: Happened, now_ms: int
) -> Deed | None:
    """Return an effect with its words; None where there is nobody to tell."""
    if effect in _OF_DRAINS:
        return _told_drain(effect, before, after, happened, now_ms)
    if effect is Effect.TELL_LEASE:
        return _tell_lease(after)
    if effect is Effect.CALL_OFF:
        return CallOff("" if before.drain is None else before.drain.session)
    if effect is Effect.WARN:
        assert after.drain is not None
        assert after.warned_ms is not None
        assert after.leave_ms is not None
        return Warn(after.drain, after.warned_ms, after.leave_ms)
    return None if effect is Effect.KEEP else effect


def _told_drain(
    effect: Effect, before: Life, after: Life, happened: Happened, now_ms: int
) -> TellDrain | None:
    older = "" if before.drain is None else before.drain.session
    session = happened.session or older
    warned_ms = now_ms if before.warned_ms is None else before.warned_ms
    if effect is Effect.TELL_HOLDING:
        return TellDrain(session, DrainState.CANCELLING, now_ms)
    if effect is Effect.TELL_CANCELLED:
        return TellDrain(session, DrainState.CANCELLED, warned_ms)
    if effect is Effect.END_OLDER:
        return TellDrain(older, DrainState.CANCELLED, warned_ms)
    if effect is Effect.TELL_REJECTED:
        return TellDrain(session, DRAIN_STATES[after.state], warned_ms, CANCEL_REJECTED)
    return _tell_drain(after, now_ms)


def _tell_lease(life: Life) -> TellLease:
    if life.state not in OVER and life.state is not PartState.STUCK:
        return TellLease(LEASE_STATES[life.state])
    outcome = life.outcome if life.state in OVER else LeaseOutcome.NONE
    return TellLease(LEASE_STATES[life.state], outcome, life.exit_code, life.detail)


def _tell_drain(life: Life, now_ms: int) -> TellDrain | None:
    held_still = life.state is _HELD
    if life.drain is None or not (life.draining or held_still):
        return None
    outcome = ""
    if life.state is PartState.STUCK:
        outcome = DEVICE_NOT_FREED
    elif life.state in OVER and life.forced:
        outcome = FORCED
    warned_ms = now_ms if life.warned_ms is None else life.warned_ms
    return TellDrain(life.drain.session, DRAIN_STATES[life.state], warned_ms, outcome)


def _followed(
    before: Life, after: Life, deeds: list[Deed], now_ms: int, rules: Rules
) -> tuple[Life | None, list[Deed]]:
    """Go on with what was kept while the part was being started, or forget what is over."""
    if before.state is PartState.STARTING and after.state is not PartState.STARTING:
        kept = [] if after.kept is None else [after.kept]
        if after.ended:
            kept.append(Happened(PartEvent.LEASE_ENDED))
        following: Life | None = replace(after, kept=None)
        for happened in kept:
            if following is not None:
                following, more = advance(following, happened, now_ms, rules)
                deeds += more
        return following, deeds
    if after.ended and after.state in OVER:
        return None, [*deeds, Effect.FORGET]
    return after, deeds
