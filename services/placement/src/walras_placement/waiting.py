"""Why pending jobs wait: the reason that is nearest to a start, told when it changes."""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from walras_contracts.demand import JobQueued
from walras_contracts.wait_reasons import WaitReason
from walras_placement.decisions import Plan, Wait
from walras_placement.draft import Draft
from walras_placement.outcomes import Short
from walras_placement.rooms import Rooms, is_free
from walras_placement.setting_aside import fitting_macc
from walras_placement.starting import Pending

LASTING: Final = frozenset(
    {
        WaitReason.NO_SUCH_TYPE,
        WaitReason.EXCEEDS_SUPPLY,
        WaitReason.PRICE_ABOVE_LIMIT,
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.BUDGET_EXHAUSTED,
    }
)
"""Reasons that depend on the job, on prices, and on what may be used of each type."""


class Explainer:
    """Names what each unplaced job is short of, where that changed.

    Parameters
    ----------
    draft
        What is open once all is placed that can be.
    result
        Takes what is to be told.
    """

    def __init__(self, draft: Draft, result: Plan) -> None:
        self._draft = draft
        self._result = result

    def unplaced(
        self,
        found: Pending,
        short: Mapping[str, Short],
        *,
        exhausted: bool,
        is_as_before: bool,
        restated: Container[str],
    ) -> None:
        """Explain what did not start of a team's pending jobs, but for a lack of devices.

        Parameters
        ----------
        found, short
            What became of the team's jobs.
        exhausted
            Whether the team may not spend.
        is_as_before
            Whether prices, and what may be used of each type, are as they were when the team was
            planned last: a reason that depends on them alone is as it was, too.
        restated
            Jobs that are not as they were then.
        """
        for job in found.unplaced:
            key = job.key
            if key in short:
                continue
            is_settled = job.reason in LASTING and key not in found.barred
            if is_as_before and is_settled and key not in restated:
                continue
            entry = job.entry()
            barred = found.barred.get(key)
            if barred is not None:
                reason, kind = barred, entry.types[0]
            else:
                reason, kind = self._shortage(entry, found.rooms)
                is_closed = exhausted and not is_free(found.rooms, kind)
                if is_closed and reason is WaitReason.WAITING_FOR_QUOTA:
                    reason = WaitReason.BUDGET_EXHAUSTED
            needed_macc = self._draft.pool.whole_macc(kind, entry.size_macc)
            if (reason, needed_macc) != (job.reason, job.needed_macc):
                available = self._available(reason, kind, entry, found.rooms)
                self._result.waiting.append(Wait(job, reason, needed_macc, available))

    def short(self, jobs: Iterable[Short], reserved: Container[str]) -> None:
        """Explain what jobs with quota lack in devices.

        Parameters
        ----------
        jobs
            Those that are short of devices.
        reserved
            Jobs that wait for devices which are kept for them.
        """
        for short in jobs:
            job, market = short.job, short.market
            entry = job.entry()
            reason = WaitReason.WAITING_FOR_DEVICES
            room_macc = min(self._draft.open_macc(market), self._draft.startable_macc(market))
            if entry.gang and room_macc >= entry.size_macc and job.key not in reserved:
                reason = WaitReason.TOPOLOGY
            needed_macc = self._draft.pool.whole_macc(market, entry.size_macc)
            if (reason, needed_macc) != (job.reason, job.needed_macc):
                open_macc = self._draft.open_macc(market)
                self._result.waiting.append(Wait(job, reason, needed_macc, open_macc))

    def _shortage(self, entry: JobQueued, rooms: Rooms) -> tuple[WaitReason, str]:
        """Return the reason that is closest to a start over the acceptable types, and its type."""
        found, at = WaitReason.NO_SUCH_TYPE, entry.types[0]
        for kind in entry.types:
            fitting = fitting_macc(self._draft.pool, kind, entry)
            if not fitting:
                continue
            if entry.size_macc > fitting:
                if found == WaitReason.NO_SUCH_TYPE:
                    found, at = WaitReason.EXCEEDS_SUPPLY, kind
                continue
            room = rooms.get(kind)
            limit = entry.limit_micro
            if room is None or limit is None or limit == 0 or limit >= room.price_micro:
                return WaitReason.WAITING_FOR_QUOTA, kind
            if found != WaitReason.PRICE_ABOVE_LIMIT:
                found, at = WaitReason.PRICE_ABOVE_LIMIT, kind
        return found, at

    def _available(self, reason: WaitReason, kind: str, entry: JobQueued, rooms: Rooms) -> int:
        if reason == WaitReason.EXCEEDS_SUPPLY:
            return fitting_macc(self._draft.pool, kind, entry)
        room = rooms.get(kind)
        if room is None or reason == WaitReason.NO_SUCH_TYPE:
            return 0
        return max(0, room.bought_macc, room.opportunistic_macc)
