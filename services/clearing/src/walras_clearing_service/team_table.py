"""All teams as columns: pool, income, leverage, wallet, budget."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.account_book import Accounts
from walras_clearing_service.job_table import ACTIVE, JobTable
from walras_clearing_service.names import NONE, Names
from walras_contracts.quantities import PPM

MINUTES_PER_HOUR: Final = 60
MACC_PER_ACCELERATOR: Final = 1000
INT64_MAX: Final = 2**63 - 1
QUOTIENT_MAX: Final = 10**17
"""Beyond it a wallet no longer bounds a bid: 60 times as much exceeds every leverage x income."""


class TeamTable:
    """Teams by number, in the order in which they came; columns have one row a number.

    ``pool`` is the number of the pool by the account in effect. A team without an account belongs
    to the first pool in id order that its jobs name, to none (`NONE`) where it has no job, and has
    no income. ``levered_micro_per_hour`` is leverage times income, floored. ``has_jobs`` says
    whether a team has a job that may be demand.
    """

    def __init__(self, pools: Names) -> None:
        self.names = Names()
        self._pools = pools
        self._accounts: Accounts | None = None
        self._order = np.empty(0, dtype=np.int32)
        self._wallets: dict[int, int] = {}
        self._exhausted: dict[int, bool] = {}
        self._pool_by_account = np.empty(0, dtype=np.int32)
        self.pool = np.empty(0, dtype=np.int32)
        self.income_micro_per_hour = np.empty(0, dtype=np.int64)
        self.leverage_ppm = np.empty(0, dtype=np.int64)
        self.levered_micro_per_hour = np.empty(0, dtype=np.int64)
        self._levered_milli = np.empty(0, dtype=np.int64)
        self.name_bytes = np.empty(0, dtype=np.int64)
        self.wallet_micro = np.empty(0, dtype=np.int64)
        self.exhausted = np.empty(0, dtype=np.bool_)
        self.has_jobs = np.empty(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.pool)

    def put_wallet(self, team: str, wallet_micro: int | None) -> None:
        """Take the latest balance of a team; None: it has none."""
        self._wallets[self.names.number(team)] = wallet_micro or 0

    def put_budget(self, team: str, exhausted: bool | None) -> None:
        """Take the latest budget of a team; None: it has none."""
        self._exhausted[self.names.number(team)] = bool(exhausted)

    def refresh(self, accounts: Accounts, jobs: JobTable) -> None:
        """Bring the columns up to date with the accounts in effect, the jobs, and what was put."""
        for team in accounts.means if accounts is not self._accounts else ():
            self.names.number(team)
        if len(self.names) > len(self):
            self._grow(len(self.names))
            self._accounts = None
        if accounts is not self._accounts:
            self._take(accounts)
        for column, put in ((self.wallet_micro, self._wallets), (self.exhausted, self._exhausted)):
            column[list(put)] = list(put.values())
            put.clear()
        active = np.flatnonzero(jobs.flags[: jobs.rows] & ACTIVE)
        self.has_jobs = np.zeros(len(self), dtype=np.bool_)
        self.has_jobs[jobs.team[active]] = True
        self.pool = self._pool_by_account.copy()
        lost = self.has_jobs & (self.pool == NONE)
        if lost.any():
            rows = active[lost[jobs.team[active]]]
            self._join_first_pool(jobs.team[rows], jobs.pool[rows])

    def in_order(self) -> NDArray[np.int32]:
        """Return all numbers in the order of the teams' ids."""
        return self._order

    def ranks(self) -> NDArray[np.int32]:
        """Return the place of each number in the order of the teams' ids."""
        ranks = np.empty(len(self), dtype=np.int32)
        ranks[self._order] = np.arange(len(self), dtype=np.int32)
        return ranks

    def names_with_jobs(self) -> list[str]:
        """Return the ids of the teams that have a job, sorted."""
        return [self.names.names[row] for row in self.rows_with_jobs().tolist()]

    def rows_with_jobs(self) -> NDArray[np.int32]:
        """Return the numbers of the teams that have a job, in the order of their ids."""
        return self._order[self.has_jobs[self._order]]

    def caps(self, minimum_affordable_minutes: int) -> NDArray[np.int64]:
        """Return what each team may bid over all markets, µcr per hour (design §4 Bids 1)."""
        whole = self.wallet_micro // minimum_affordable_minutes
        rest = self.wallet_micro - whole * minimum_affordable_minutes
        # 60·wallet/minutes in two parts, since the product may leave 64 bits.
        from_wallet = MINUTES_PER_HOUR * np.clip(whole, -QUOTIENT_MAX, QUOTIENT_MAX)
        from_wallet += MINUTES_PER_HOUR * rest // minimum_affordable_minutes
        caps = np.minimum(self.levered_micro_per_hour, self.income_micro_per_hour + from_wallet)
        return np.where(self.exhausted, 0, np.maximum(0, caps))

    def largest_affordable_macc(self, price_micro: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the largest gang that leverage x income pays at each team's price (§4 Bids 6).

        Parameters
        ----------
        price_micro
            One row a team; where it is not above 0, any gang can be paid.
        """
        known = price_micro > 0
        found = np.full(len(self), INT64_MAX, dtype=np.int64)
        np.floor_divide(self._levered_milli, price_micro, out=found, where=known)
        for row in np.flatnonzero(known & (self._levered_milli == INT64_MAX)).tolist():
            # So rich that the product leaves 64 bits.
            exact = int(self.leverage_ppm[row]) * int(self.income_micro_per_hour[row])
            bound = exact * MACC_PER_ACCELERATOR // (int(price_micro[row]) * PPM)
            found[row] = min(INT64_MAX, bound)
        return found

    def _grow(self, size: int) -> None:
        more = size - len(self)
        self.wallet_micro = np.append(self.wallet_micro, np.zeros(more, dtype=np.int64))
        self.exhausted = np.append(self.exhausted, np.zeros(more, dtype=np.bool_))
        more_bytes = [len(name) for name in self.names.names[len(self) : size]]
        self.name_bytes = np.append(self.name_bytes, np.array(more_bytes, dtype=np.int64))
        self.pool = np.append(self.pool, np.full(more, NONE, dtype=np.int32))
        self._order = np.array(self.names.sorted_numbers(range(size)), dtype=np.int32)

    def _join_first_pool(self, team: NDArray[np.int32], pool: NDArray[np.int32]) -> None:
        """Put each of these teams into the first in id order of the pools named with it."""
        order = np.array(self._pools.sorted_numbers(range(len(self._pools))), dtype=np.int32)
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        first = np.full(len(self), len(order), dtype=np.int32)
        np.minimum.at(first, team, ranks[pool])
        self.pool[team] = order[first[team]]

    def _take(self, accounts: Accounts) -> None:
        size = len(self)
        pool = np.full(size, NONE, dtype=np.int32)
        income, leverage, levered, milli = (np.zeros(size, dtype=np.int64) for _ in range(4))
        for team, means in accounts.means.items():
            row = self.names.number(team)
            pool[row] = self._pools.number(means.pool)
            income[row] = means.income_micro_per_hour
            leverage[row] = means.leverage_ppm
            exact = means.leverage_ppm * means.income_micro_per_hour
            levered[row] = exact // PPM
            milli[row] = min(INT64_MAX, exact * MACC_PER_ACCELERATOR // PPM)
        self._pool_by_account, self.income_micro_per_hour = pool, income
        self.leverage_ppm = leverage
        self.levered_micro_per_hour, self._levered_milli = levered, milli
        self._accounts = accounts
