"""Specification of `places` and `moves`: which markets are open to which job, at which price."""

from collections.abc import Mapping

from walras_clearing_service.model import LastClearing, MarketInput
from walras_clearing_service.moves import move_bound
from walras_clearing_service.reference_model import JobView, PlainCycleInput
from walras_contracts.accounts import Gate

Choice = tuple[str, int, str] | None
"""Market to move to, bound on the hash, and whose unsold supply bounds the move: see `choice`."""


class Places:
    """Markets on sale with their size and last prices; answers are cached for one cycle.

    ``open`` holds the markets that are cleared in this cycle, ``sold`` the whole supply (macc) of
    these and of those that are stopped for this cycle only.
    """

    def __init__(self, cycle_input: PlainCycleInput) -> None:
        stopped = frozenset(cycle_input.stopped)
        self._parameters = cycle_input.parameters
        self.open: dict[str, MarketInput] = {
            market.market: market
            for market in cycle_input.markets
            if market.gate is Gate.ON and market.market not in stopped
        }
        # A market that is stopped for one cycle keeps its jobs: they are not sent elsewhere.
        self.sold: dict[str, int] = {
            market.market: market.total_macc
            for market in cycle_input.markets
            if market.gate is Gate.ON
        }
        self._last: Mapping[str, LastClearing] = cycle_input.last
        self._smallest = min(self.sold.values(), default=0)
        self._home_cache: dict[tuple[tuple[str, ...], str | None], str | None] = {}
        self._choices: dict[tuple[tuple[str, ...], str, str, int], Choice] = {}

    def home(self, job: JobView) -> str | None:
        """Return the market in which a job is demand unless it moves; None: there is none.

        A running job stays where it runs. A pending one stays where it was assigned as long as it
        could fit there at all; else the first acceptable type that it fits counts, else the first
        that is sold.
        """
        if job.running_in is not None:
            return job.running_in if job.running_in in self.sold else None
        if job.size_macc > self._smallest:
            return self._find_home(job.types, job.assigned, job.size_macc)
        asked = (job.types, job.assigned)
        if asked not in self._home_cache:
            self._home_cache[asked] = self._find_home(job.types, job.assigned, 0)
        return self._home_cache[asked]

    def fits(self, job: JobView, home: str | None) -> bool:
        """Whether the whole supply of its market could hold the job."""
        return home is not None and job.size_macc <= self.sold[home]

    def price(self, market: str, pool: str) -> int | None:
        """Price that a pool paid in a market's last clearing; None: no price is known."""
        last = self._last.get(market)
        return None if last is None else last.price_for(pool)

    def choice(self, job: JobView, home: str, pool: str) -> Choice:
        """Return where a pending job would rather be (design §4 Bids 2), or None.

        The second value is the bound that the job's 64-bit hash must stay below:
        ``hash < g·share·2^64`` in integers. The third names the supply that the move is charged to,
        see :meth:`unsold`; it is empty where the price is above 0.
        """
        size = job.size_macc if job.size_macc > self._smallest else 0
        asked = (job.types, home, pool, size)
        if asked not in self._choices:
            self._choices[asked] = self._choose(job.types, home, pool, size)
        return self._choices[asked]

    def unsold(self, source: str) -> int:
        """Return the supply behind a zero price that nobody bought.

        ``source`` is ``market/`` where the reference price was 0, and ``market/pool`` where only
        the pool's own supply came free.
        """
        market, _, pool = source.partition("/")
        last = self._last[market]
        return last.idle_own_macc.get(pool, 0) if pool else last.unsold_macc

    def _find_home(
        self, types: tuple[str, ...], assigned: str | None, size_macc: int
    ) -> str | None:
        sold = [name for name in types if name in self.sold]
        fitting = [name for name in sold if size_macc <= self.sold[name]]
        if assigned in fitting:
            return assigned
        return next(iter(fitting), next(iter(sold), None))

    def _choose(self, types: tuple[str, ...], home: str, pool: str, size_macc: int) -> Choice:
        here = self._last.get(home)
        if here is None or home not in self.open:
            return None
        found: list[tuple[int, int, int, str, str]] = []
        for rank, name in enumerate(types):
            there = self._last.get(name)
            if name == home or name not in self.open or there is None:
                continue
            price = there.price_for(pool)
            if price is None or size_macc > self.open[name].total_macc:
                continue
            source = self._source(name, pool, price)
            # Of several free markets the emptiest: else the full one in front would hide it.
            found.append((price, -self.unsold(source) if source else 0, rank, name, source))
        if not found:
            return None
        price, _, _, name, source = min(found)
        bound = move_bound(here.price_for(pool), price, self._parameters)
        return (name, bound, source) if bound else None

    def _source(self, market: str, pool: str, price: int) -> str:
        if price > 0:
            return ""
        return f"{market}/" if self._last[market].reference_price_micro == 0 else f"{market}/{pool}"
