"""The decision of a step: who keeps devices, who leaves or stays after all, who starts (design §5).

``plan`` is a pure function of the state and the step; it changes nothing. It may be told which
teams to look at: those for which something is not as it was when they were planned last, which the
state knows. It is the same as a plan of all teams then; tests compare the two over histories.
"""

from collections.abc import Iterable, Sequence

from walras_contracts.work import JobState
from walras_placement.decisions import Plan, Wake
from walras_placement.draft import Draft
from walras_placement.keeping import Keeper, covers
from walras_placement.leases import Lease
from walras_placement.outcomes import Outcome, Short
from walras_placement.reservations import leases_in
from walras_placement.reserving import Reserver
from walras_placement.rooms import close, rooms_of
from walras_placement.rules import Moment, Rules
from walras_placement.setting_aside import set_aside
from walras_placement.starting import Pending, Starter
from walras_placement.state import PlacementState
from walras_placement.waiting import Explainer


def plan(
    state: PlacementState, moment: Moment, rules: Rules, scope: Sequence[str] | None = None
) -> Plan:
    """Decide who runs where.

    Running jobs go before leaving ones that may stay, these before pending ones, bought quota of
    all teams before opportunistic quota, the order of a team's queue before everything else within
    it. What does not fit is passed over, but for what the market's rounding policy keeps for jobs
    that wait long, and for what is reserved for jobs whose devices are being freed. Behind a job in
    its turn nothing of its team starts (`turns`). Quota is spent on what a job occupies: whole
    devices. An exhausted team begins nothing on quota that costs anything; what runs there stays
    for the grace.

    Parameters
    ----------
    state
        Tables, jobs and devices; not changed.
    moment
        The step.
    rules
        Durations.
    scope
        Teams to look at, by name; None: all.
    """
    work = _Planning(state, moment, rules)
    names = sorted(state.teams) if scope is None else list(scope)
    work.keep(names)
    work.release_lost()
    more = work.affected(names)
    work.keep(more)
    names = sorted([*names, *more])
    work.let_stay(names)
    work.start(names)
    work.explain(names, anew=scope is None)
    return work.result


class _Planning:
    """One plan under way."""

    def __init__(self, state: PlacementState, moment: Moment, rules: Rules) -> None:
        self.result = Plan()
        self._state = state
        self._moment = moment
        self._rules = rules
        self._withdrawn = state.devices.withdrawn()
        self._found: dict[str, Pending] = {}
        self._exhausted: dict[str, None] = {}
        self._draft = Draft(state.devices)

    def keep(self, names: Iterable[str]) -> None:
        """Settle what running jobs keep."""
        state, now_ms = self._state, self._moment.now_ms
        keeper = self._keeper()
        for name in names:
            rooms = rooms_of(state.quotas.get(name, {}))
            wake = Wake()
            told_ms = state.exhausted.told_ms(name)
            if told_ms is not None:
                over_ms = told_ms + self._rules.budget_grace_ms
                close(rooms, is_over=now_ms >= over_ms)
                if now_ms < over_ms:
                    wake.by_ms(over_ms)
                self._exhausted[name] = None
            team = state.teams[name]
            if team.pending and (team.books or team.draining):
                set_aside(
                    team,
                    rooms,
                    state.devices,
                    reservations=state.reservations,
                    policies=state.policies,
                    moment=self._moment,
                    rules=self._rules,
                )
            if team.books:
                keeper.running(team, rooms, wake, exhausted=told_ms is not None)
            if told_ms is not None:
                close(rooms, is_over=True)
            self._found[name] = Pending(rooms, wake)

    def release_lost(self) -> None:
        """End the reservations of jobs that have not the quota any more."""
        for key in sorted(self._state.reservations):
            job = self._state.jobs[key]
            if job.team not in self._found:
                continue
            reservation = self._state.reservations[key]
            room = self._found[job.team].rooms.get(reservation.market)
            entry = job.queued
            keeps_devices = self._state.policies.keeps_devices(reservation.market)
            may_stand = keeps_devices or not reservation.standing
            is_kept = (
                job.state is JobState.PENDING
                and entry is not None
                and room is not None
                and entry.size_macc <= room.bought_macc
                and covers(entry, room.price_micro)
                and may_stand
            )
            if not is_kept:
                self.result.released[key] = job
                self._draft.unlock(reservation.market, reservation.shares)

    def affected(self, names: Sequence[str]) -> list[str]:
        """Return other teams to which it matters who has to leave and what is not reserved."""
        state = self._state
        found: dict[str, None] = {}
        for vacate in self.result.vacated:
            found.update(state.outcomes.short_of(vacate.job.held_lease().market))
        for key in self.result.released:
            reservation = state.reservations[key]
            found.update(state.outcomes.short_of(reservation.market))
            for lease in leases_in(reservation, state.devices.nodes):
                if lease in state.by_lease:
                    found[state.by_lease[lease].team] = None
        known = dict.fromkeys(names)
        return sorted(name for name in found if name not in known)

    def let_stay(self, names: Iterable[str]) -> None:
        """Let leaving jobs stay that need not leave any more."""
        keeper = self._keeper()
        for name in names:
            team = self._state.teams[name]
            if team.draining:
                nodes, released = self._state.devices.nodes, self.result.released
                found = self._found[name]
                keeper.leaving(team, found.rooms, found.wake, nodes, released)

    def start(self, names: Sequence[str]) -> None:
        """Start pending jobs: all that bought quota allows, then what is left over."""
        state, result = self._state, self.result
        staying = {key: stay.job.held_lease() for key, stay in result.stays.items()}
        reserver = Reserver(self._draft, self._leaving(), staying, result.released)
        starter = Starter(
            self._draft,
            reserver,
            result,
            reservations=state.reservations,
            policies=state.policies,
            moment=self._moment,
            rules=self._rules,
        )
        known = [key for key in sorted(state.reservations) if state.jobs[key].team in self._found]
        starter.grow(state.jobs[key] for key in known)
        pending = [name for name in names if state.teams[name].pending]
        for name in pending:
            starter.bought(state.teams[name], self._found[name])
        for name in pending:
            starter.opportunistic(name, self._found[name])
        starter.standing()
        granted = {grant.job.key: None for grant in result.granted}
        for key in known:
            job = state.jobs[key]
            if key not in self._found[job.team].kept and key not in granted:
                result.released[key] = job

    def explain(self, names: Iterable[str], *, anew: bool) -> None:
        """Say why jobs wait, and what each team's plan came to."""
        state, result = self._state, self.result
        explainer = Explainer(self._draft, result)
        for name in names:
            found = self._found[name]
            short = found.short(self._draft.pool)
            exhausted = name in self._exhausted
            prices = {market: room.price_micro for market, room in found.rooms.items()}
            free = [market for market, room in found.rooms.items() if room.is_free]
            seen = (prices, free, exhausted, state.reshapings)
            before = state.outcomes.get(name)
            explainer.unplaced(
                found,
                short,
                exhausted=exhausted,
                is_as_before=not anew and before is not None and before.seen == seen,
                restated=state.teams[name].restated,
            )
            result.outcomes[name] = self._outcome(found, short, seen)
            result.wakes[name] = found.wake
        reserved = {key: None for key in state.reservations if key not in result.released}
        reserved.update({reserve.job.key: None for reserve in result.reserved})
        for name in names:
            explainer.short(result.outcomes[name].short.values(), reserved)
        # What is open tells two reasons apart, for teams that are not planned now, too.
        for kind in sorted(state.devices.places):
            now = (self._draft.open_macc(kind), self._draft.startable_macc(kind))
            result.open_macc[kind] = now
            if now != state.outcomes.open_macc.get(kind):
                explainer.short(self._short_elsewhere(kind), reserved)

    def _short_elsewhere(self, kind: str) -> Iterable[Short]:
        for name in sorted(self._state.outcomes.short_of(kind)):
            outcome = self._state.outcomes.get(name)
            if outcome is not None and name not in self._found:
                yield from (short for short in outcome.short.values() if short.market == kind)

    def _outcome(self, found: Pending, short: dict[str, Short], seen: object) -> Outcome:
        unspent = {m: room.unspent_macc() for m, room in found.rooms.items() if room.allocated_macc}
        return Outcome(short, found.waits_for, unspent, seen)

    def _keeper(self) -> Keeper:
        state = self._state
        return Keeper(
            self.result,
            self._withdrawn,
            state.scores_ppm,
            self._moment.now_ms,
            state.policies.gap_ppm,
        )

    def _leaving(self) -> list[Lease]:
        """Return the leases whose devices become free: in no order that matters."""
        vacated = [vacate.job.held_lease() for vacate in self.result.vacated]
        again = {lease.lease: None for lease in vacated}
        leaving = [
            job.held_lease()
            for key, job in sorted(self._state.draining.items())
            if not job.held_lease().withdrawn
        ]
        stays = self.result.stays
        return [
            *vacated,
            *(lease for lease in leaving if lease.lease not in stays and lease.lease not in again),
        ]
