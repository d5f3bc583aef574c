"""What running and leaving jobs keep of their team's quota (design §5)."""

from collections.abc import Container, Mapping

from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.quantities import PPM
from walras_contracts.work import WorkClass
from walras_placement.decisions import Plan, Reclass, Stay, Vacate, Wake
from walras_placement.jobs import Job
from walras_placement.leases import Lease
from walras_placement.nodes import Node
from walras_placement.rooms import Room, Rooms
from walras_placement.teams import RunBook, TeamJobs
from walras_placement.victims import choose_victims


def covers(entry: JobQueued, price_micro: int) -> bool:
    """Whether a job may use bought quota: no limit, or one at or above the price; never with 0."""
    limit = entry.limit_micro
    return limit is None or (limit >= price_micro and limit > 0)


def cause_of(job: Job, withdrawn: Mapping[str, None]) -> VacateReason | None:
    """Return why a job that holds devices has to leave, whatever the quota; None: it need not."""
    lease = job.held_lease()
    if job.queued is None:
        return VacateReason.LEFT_QUEUE
    if job.queued.cancelled:
        return VacateReason.CANCELLED
    if lease.broken:
        return VacateReason.GANG_BROKEN
    if lease.lease in withdrawn:
        return VacateReason.DEVICE_WITHDRAWN
    return lease.requested


class Keeper:
    """Settles what jobs keep that hold devices; rooms shrink by it.

    Parameters
    ----------
    result
        Takes what is decided.
    withdrawn
        Leases with devices that they may not use any more.
    scores_ppm
        Drainability by job key.
    now_ms
        Market time of the step.
    gap_ppm
        By how much a limit counts as raised within the minimum run time.
    """

    def __init__(
        self,
        result: Plan,
        withdrawn: Mapping[str, None],
        scores_ppm: Mapping[str, int],
        now_ms: int,
        gap_ppm: int,
    ) -> None:
        self._result = result
        self._withdrawn = withdrawn
        self._scores_ppm = scores_ppm
        self._now_ms = now_ms
        self._gap_ppm = gap_ppm

    def running(self, jobs: TeamJobs, rooms: Rooms, wake: Wake, *, exhausted: bool) -> None:
        """Settle the running jobs of a team."""
        leaving: dict[str, Vacate] = {}
        for key, job in jobs.marked.items():
            reason = cause_of(job, self._withdrawn)
            if reason is not None:
                leaving[key] = Vacate(job, reason)
        for market in sorted(jobs.books):
            room = rooms.get(market)
            if room is None:
                room = rooms[market] = Room(0, 0, 0, of_exhausted=exhausted)
            self._market(jobs.books[market], room, leaving, wake)
        self._result.vacated.extend(leaving[key] for key in sorted(leaving))

    def leaving(
        self,
        jobs: TeamJobs,
        rooms: Rooms,
        wake: Wake,
        nodes: Mapping[str, Node],
        released: Container[str],
    ) -> None:
        """Let those stay after all that need not leave any more, in queue order.

        The causes are gone, the quota covers the job again, and no job has its devices reserved. A
        job that was let stay before, and still waits for its agents, keeps quota or has to leave.
        """
        for job in sorted(jobs.draining.values(), key=_queue_order):
            lease = job.held_lease()
            reason = cause_of(job, self._withdrawn)
            if lease.too_late or (reason is not None and not lease.withdrawn):
                continue
            room = rooms.get(lease.market) or Room(0, 0, 0)
            if reason is None and not lease.withdrawn and _is_awaited(lease, nodes, released):
                continue
            if reason is None and self._spend_again(job, room):
                is_paid = lease.work_class is WorkClass.MARKET
                if is_paid and not covers(job.entry(), room.price_micro):
                    # Until its agents agree nothing else tells that its minimum run time is over.
                    wake.by_ms(lease.granted_ms + job.entry().minimum_run_ms)
                if not lease.withdrawn:
                    self._result.stays[lease.lease] = Stay(job)
            elif lease.withdrawn:
                self._result.vacated.append(Vacate(job, reason or self._reason(job, room)))

    def _spend_again(self, job: Job, room: Room) -> bool:
        lease = job.held_lease()
        if lease.work_class is WorkClass.MARKET:
            fits = lease.size_macc <= room.uncommitted_macc and not room.is_closed
            if fits and self._pays(job, room.price_micro):
                room.spend(lease.size_macc)
                return True
        elif lease.size_macc <= room.opportunistic_macc:
            room.opportunistic_macc -= lease.size_macc
            return True
        return False

    def _market(self, book: RunBook, room: Room, leaving: dict[str, Vacate], wake: Wake) -> None:
        others: list[Job] = []
        held_macc = book.paid_macc
        for key in leaving:
            if key in book.paid:
                held_macc -= book.paid[key].held_lease().size_macc
        for job in book.below(room.price_micro):
            if job.key in leaving:
                continue
            if self._pays(job, room.price_micro):
                wake.by_ms(job.held_lease().granted_ms + job.entry().minimum_run_ms)
                continue
            others.append(job)
            held_macc -= job.held_lease().size_macc
        if held_macc > room.bought_macc:
            away = {job.key: None for job in others}
            holders = [j for key, j in book.paid.items() if key not in leaving and key not in away]
            for victim in self._victims(holders, held_macc - room.bought_macc):
                held_macc -= victim.held_lease().size_macc
                others.append(victim)
        room.spend(held_macc)
        others += [job for key, job in book.free.items() if key not in leaving]
        if others:
            self._others(sorted(others, key=_queue_order), room, leaving)

    def _others(self, jobs: list[Job], room: Room, leaving: dict[str, Vacate]) -> None:
        """Settle what bought quota does not keep: promote, keep as opportunistic, or vacate."""
        staying: list[Job] = []
        total_macc = 0
        for job in jobs:
            lease = job.held_lease()
            opportunistic = lease.work_class is WorkClass.OPPORTUNISTIC
            fits = not room.is_closed and lease.size_macc <= room.uncommitted_macc
            # What has not paid yet is not retained: it must be able to pay the price itself.
            if opportunistic and fits and covers(job.entry(), room.price_micro):
                room.spend(lease.size_macc)
                self._result.reclassed.append(Reclass(job, WorkClass.MARKET))
            else:
                staying.append(job)
                total_macc += lease.size_macc
        excess_macc = total_macc - room.opportunistic_macc
        victims = {job.key: None for job in self._victims(staying, excess_macc)}
        for job in staying:
            lease = job.held_lease()
            if job.key in victims:
                leaving[job.key] = Vacate(job, self._reason(job, room))
                continue
            room.opportunistic_macc -= lease.size_macc
            if lease.work_class is WorkClass.MARKET:
                self._result.reclassed.append(Reclass(job, WorkClass.OPPORTUNISTIC))

    def _victims(self, jobs: list[Job], excess_macc: int) -> list[Job]:
        return choose_victims(jobs, excess_macc, self._now_ms, self._scores_ppm)

    def _reason(self, job: Job, room: Room) -> VacateReason:
        """Return why a job that bought or opportunistic quota does not keep leaves."""
        if job.held_lease().work_class is not WorkClass.MARKET:
            return VacateReason.QUOTA_LOST
        if not self._pays(job, room.price_micro):
            return VacateReason.PRICE_ABOVE_LIMIT
        return VacateReason.BUDGET_EXHAUSTED if room.of_exhausted else VacateReason.QUOTA_LOST

    def _pays(self, job: Job, price_micro: int) -> bool:
        """Whether a job's limit covers the price, raised within its minimum run time."""
        entry = job.entry()
        if covers(entry, price_micro):
            return True
        if not entry.limit_micro:
            return False
        ran_ms = self._now_ms - job.held_lease().granted_ms
        raised = entry.limit_micro * (PPM + self._gap_ppm) // PPM
        return ran_ms < entry.minimum_run_ms and raised >= price_micro


def _is_awaited(lease: Lease, nodes: Mapping[str, Node], released: Container[str]) -> bool:
    """Whether a job has devices of a lease reserved."""
    for share in lease.open_shares():
        reserved = nodes[share.node].reserved
        if reserved and any(
            device in reserved and reserved[device] not in released for device in share.devices
        ):
            return True
    return False


def _queue_order(job: Job) -> tuple[int, str]:
    return (job.queued.position if job.queued is not None else 0, job.job)
