"""What is left of a team's quota in each market while a plan is made."""

from collections.abc import Mapping
from dataclasses import dataclass

from walras_contracts.market import MarketQuota


@dataclass(slots=True)
class Room:
    """What a team may still occupy in one market.

    ``spent_macc`` is what it occupies of ``allocated_macc``. ``aside_macc`` is for pending jobs
    that go before what could be promoted or stay after all. ``is_free``: bought quota is known to
    cost nothing. ``of_exhausted``: the team may not spend.
    """

    bought_macc: int
    opportunistic_macc: int
    price_micro: int
    is_free: bool = False
    of_exhausted: bool = False
    allocated_macc: int = 0
    spent_macc: int = 0
    aside_macc: int = 0

    @property
    def uncommitted_macc(self) -> int:
        """Bought quota that is not set aside."""
        return self.bought_macc - self.aside_macc

    @property
    def is_closed(self) -> bool:
        """Whether nothing may begin to use bought quota here, because it would cost something."""
        return self.of_exhausted and not self.is_free

    def spend(self, macc: int) -> None:
        """Occupy bought quota."""
        self.bought_macc -= macc
        self.spent_macc += macc

    def unspent_macc(self) -> int:
        """Return what was bought and is not occupied."""
        return max(0, self.allocated_macc - self.spent_macc)


Rooms = dict[str, Room]


def rooms_of(quotas: Mapping[str, MarketQuota]) -> Rooms:
    """Return the rooms that a team's quotas open, by market."""
    return {
        market: Room(
            quota.allocated_macc,
            quota.opportunistic_macc,
            quota.price_micro or 0,
            is_free=quota.price_micro == 0,
            allocated_macc=quota.allocated_macc,
        )
        for market, quota in quotas.items()
    }


def close(rooms: Rooms, *, is_over: bool) -> None:
    """Close the quota of an exhausted team; once the grace is over nothing keeps what costs."""
    for room in rooms.values():
        room.of_exhausted = True
        if is_over and room.is_closed:
            room.bought_macc = 0


def is_free(rooms: Rooms, market: str) -> bool:
    """Whether a team has bought quota in a market that costs nothing."""
    room = rooms.get(market)
    return room is not None and room.is_free
