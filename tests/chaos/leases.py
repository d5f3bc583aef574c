"""The leases of a chaos run: who holds what from when to when, and what that is metered as."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.quantities import PPM
from walras_contracts.work import DrainState, DrainStatusChanged, UsageMetered, WorkClass

TEAMS_PER_POOL: Final = 4
SHORTEST_STEPS: Final = 4
LONGEST_STEPS: Final = 40
DRAINED_ONE_IN: Final = 4
"""One lease in so many is drained at its end, every second of these in vain."""
BILLING_GRACE_MS: Final = 10_000
"""After its warning a drain is charged for so long."""
CLASSES: Final = (*(WorkClass.MARKET,) * 6, WorkClass.OVERHANG, WorkClass.OPPORTUNISTIC)
LIMITS_MICRO: Final = (None, None, 1_200_000, 2_000_000, 3_000_000)
TARIFFS_PPM: Final = (PPM, PPM, 900_000, 1_250_001)


def teams_of(pool: str) -> tuple[str, ...]:
    """Return the teams of a pool that use anything."""
    return tuple(f"{pool}-team-{index}" for index in range(TEAMS_PER_POOL))


@dataclass(slots=True)
class Metered:
    """What the agents wrote of one step: use by the place of its lease, and drains."""

    usage: list[tuple[int, UsageMetered]] = field(default_factory=list)
    drains: list[DrainStatusChanged] = field(default_factory=list)


@dataclass(slots=True)
class _Lease:
    name: str
    node: str
    attempt: int
    team: str
    pool: str
    job: str
    market: str
    quantity_macc: int
    work_class: WorkClass
    limit_micro: int | None
    tariff_ppm: int
    steps_left: int
    seq: int = 0


class LeaseBook:
    """A fixed number of places, each with a lease that another follows.

    Parameters
    ----------
    places
        How many leases run at any time.
    pools, markets
        Whose, and of what.
    chooser
        Decides all that is not given.
    """

    def __init__(
        self, places: int, pools: Sequence[str], markets: Sequence[str], chooser: random.Random
    ) -> None:
        self._pools = pools
        self._markets = markets
        self._chooser = chooser
        self._count = 0
        self._leases = [self._next(place) for place in range(places)]

    def step(self, start_ms: int, end_ms: int, most: int) -> Metered:
        """Return what is metered over [start, end): at most so many usage records."""
        metered = Metered()
        for place, lease in enumerate(self._leases):
            if len(metered.usage) >= most:
                break
            # A lease begins somewhere in its first interval, and ends with its last.
            first = lease.seq == 0
            begin_ms = start_ms + self._chooser.randrange(end_ms - start_ms) if first else start_ms
            lease.steps_left -= 1
            drained = lease.steps_left == 0 and self._chooser.randrange(DRAINED_ONE_IN) == 0
            if drained and end_ms - begin_ms > BILLING_GRACE_MS and len(metered.usage) + 2 <= most:
                self._drain(metered, place, (begin_ms, end_ms))
            else:
                metered.usage.append((place, _usage(lease, begin_ms, end_ms)))
            if lease.steps_left == 0:
                self._leases[place] = self._next(place)
        return metered

    def _drain(self, metered: Metered, place: int, span_ms: tuple[int, int]) -> None:
        """Warn at the beginning of the interval; freed or failed at its end."""
        lease, (start_ms, end_ms) = self._leases[place], span_ms
        unbilled_ms = start_ms + BILLING_GRACE_MS
        metered.usage.append((place, _usage(lease, start_ms, unbilled_ms)))
        metered.usage.append((place, _usage(lease, unbilled_ms, end_ms, billable=False)))
        fails = self._chooser.randrange(2) == 0
        ended = DrainState.FAILED if fails else DrainState.FREED
        outcome = "device_not_freed" if fails else ""
        for state, said, at_ms in (
            (DrainState.WARNED, "", start_ms),
            (ended, outcome, end_ms),
        ):
            metered.drains.append(
                DrainStatusChanged(
                    session=f"drain-{lease.name}",
                    lease=lease.name,
                    node=lease.node,
                    team=lease.team,
                    pool=lease.pool,
                    job=lease.job,
                    state=state,
                    outcome=said,
                    warned_ms=start_ms,
                    at_ms=at_ms,
                )
            )

    def _next(self, place: int) -> _Lease:
        self._count += 1
        chooser = self._chooser
        pool = self._pools[place % len(self._pools)]
        return _Lease(
            name=f"lease-{self._count}",
            node=f"node-{place % 97}",
            attempt=chooser.randint(1, 3),
            team=chooser.choice(teams_of(pool)),
            pool=pool,
            job=f"job-{self._count}",
            market=chooser.choice(self._markets),
            quantity_macc=1_000 * chooser.choice((1, 1, 2, 4, 8)),
            work_class=chooser.choice(CLASSES),
            limit_micro=chooser.choice(LIMITS_MICRO),
            tariff_ppm=chooser.choice(TARIFFS_PPM),
            steps_left=chooser.randint(SHORTEST_STEPS, LONGEST_STEPS),
        )


def _usage(lease: _Lease, start_ms: int, end_ms: int, *, billable: bool = True) -> UsageMetered:
    seq, lease.seq = lease.seq, lease.seq + 1
    return UsageMetered(
        lease=lease.name,
        node=lease.node,
        attempt=lease.attempt,
        seq=seq,
        team=lease.team,
        pool=lease.pool,
        job=lease.job,
        market=lease.market,
        quantity_macc=lease.quantity_macc,
        start_ms=start_ms,
        end_ms=end_ms,
        work_class=lease.work_class,
        billable=billable,
        limit_micro=lease.limit_micro,
        tariff_ppm=lease.tariff_ppm,
    )
