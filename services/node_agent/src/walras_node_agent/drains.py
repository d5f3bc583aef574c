"""How simulated jobs behave when they have to leave, and what is told of it.

A job that saves answers its warning at once and has saved after a while; one that restarts leaves
at the same time; one that does neither ignores SIGTERM. Their devices are free as soon as nothing
of them runs, except in the drains that were chosen to fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras_contracts.accounts import DrainTerms
from walras_contracts.demand import Drainability
from walras_contracts.identifiers import digest_of
from walras_contracts.quantities import PPM
from walras_contracts.work import DrainState, DrainStatusChanged, WorkClass
from walras_node_agent.part_life import Rules, TellDrain
from walras_node_agent.state import Lease

PROGRESS_MS: Final = 10_000
"""A drain that goes on says so at least this often."""
STUCK_MS: Final = 300_000
"""Devices of a drain that was chosen to fail are free so long after they were given up on."""
_TERMS: Final = DrainTerms()
RULES: Final = Rules(leave_ms=0, terminate_ms=_TERMS.terminate_ms, verify_ms=_TERMS.verify_ms)
"""For a lease whose record ends while it runs: the platform's defaults."""
_BLOCKERS: Final = {
    DrainState.WARNED: "the job does not answer its warning",
    DrainState.CHECKPOINTING: "the job saves",
    DrainState.WAITING: "the job runs until its warning is over",
    DrainState.CANCELLING: "the other parts of the gang do not hold yet",
    DrainState.TERMINATING: "the job ignores SIGTERM",
    DrainState.VERIFYING: "devices are not free",
    DrainState.FAILED: "devices are not free",
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How simulated jobs and devices behave.

    Parameters
    ----------
    save_ms
        How soon after its warning a job has saved, or gives up, and leaves; None: at its end.
    fail_drains_ppm
        Share of the drains whose devices are not free in time.
    """

    save_ms: int | None = None
    fail_drains_ppm: int = 0

    def leaves_ms(self, lease: Lease) -> int | None:
        """Return when a job that was warned leaves by itself; None: it does not."""
        life = lease.life
        if life.leave_ms is None or life.drainability is Drainability.NONE:
            return None
        if self.save_ms is None or life.warned_ms is None:
            return life.leave_ms
        return min(life.leave_ms, life.warned_ms + self.save_ms)

    def fails(self, lease: Lease) -> bool:
        """Whether the devices of a drain are not free in time: by its session, nothing is drawn."""
        life = lease.life
        if self.fail_drains_ppm == 0 or life.drain is None or not life.draining:
            return False
        return int(digest_of("fails", life.drain.session), 16) % PPM < self.fail_drains_ppm


def ends_at_sigterm(lease: Lease) -> bool:
    """Whether a job ends when it is told to by SIGTERM."""
    return lease.life.drainability is not Drainability.NONE


def has_saved(lease: Lease) -> bool:
    """Whether a job that leaves goes on later where it stopped; others begin anew."""
    return lease.life.drainability is Drainability.CHECKPOINT and lease.life.saved


def unbilled_from_ms(lease: Lease) -> int | None:
    """Return from when on use is not billed because the lease leaves; None: all of it is."""
    life = lease.life
    if life.warned_ms is not None and life.drain is not None:
        return life.warned_ms + life.drain.billing_grace_ms
    # Its record is gone: there is nobody to bill it to.
    return 0 if life.ended else None


def usage_class(lease: Lease) -> tuple[WorkClass, bool]:
    """Return the class of a lease's use, and whether it is billed as long as billing goes on.

    What ran at price 0 is not billed while it leaves, either: its team agreed to no price.
    """
    if not lease.leaving:
        return lease.work_class, True
    return WorkClass.OVERHANG, lease.work_class is not WorkClass.OPPORTUNISTIC


def last_words(told: Iterable[tuple[TellDrain, int]]) -> list[tuple[TellDrain, int]]:
    """Return what is told of drains, of each instant the last; a rejection is told in any case."""
    kept: dict[tuple[str, int, str], tuple[TellDrain, int]] = {}
    for deed, at_ms in told:
        place = (deed.session, at_ms, deed.outcome if deed.outcome == "cancel_rejected" else "")
        kept.pop(place, None)
        kept[place] = (deed, at_ms)
    return list(kept.values())


def drain_statuses(lease: Lease, told: TellDrain, at_ms: int) -> list[DrainStatusChanged]:
    """Return what is told of the drain of a lease, for each of its nodes."""
    blocker = _BLOCKERS.get(told.state)
    return [
        DrainStatusChanged(
            session=told.session,
            lease=lease.lease,
            node=node,
            team=lease.team,
            pool=lease.pool,
            job=lease.job,
            state=told.state,
            outcome=told.outcome,
            warned_ms=told.warned_ms,
            at_ms=max(at_ms, told.warned_ms),
            blockers=() if blocker is None else (blocker,),
        )
        for node in sorted(lease.sizes_macc)
    ]
