"""Stored cycles of markets that the clearing library's objects cleared; for tests only."""

from collections.abc import Callable, Mapping, Sequence

from walras.archive.recorded_cycle import RecordedCycle
from walras_clearing import ClearingResult, Market, clear
from walras_contracts.cycle_frames import FoldedJob, FoldedTeam
from walras_contracts.market import (
    CycleFramed,
    CycleRecorded,
    FrameKind,
    MarketState,
    PoolCycle,
)

START_MS = 1_616_544_000_000
"""Midnight, UTC."""
INTERVAL_MS = 30_000
Jobs = Mapping[str, FoldedJob]
Teams = Mapping[str, FoldedTeam]


class CycleMaker:
    """Records the cycles of one market, as a writer of change frames and key frames would.

    Parameters
    ----------
    market
        Its id.
    start_ms
        Market time of cycle 0.
    rows_a_part
        Rows after which a frame is cut into another part.
    solve
        The auction.
    """

    def __init__(
        self,
        market: str = "a100",
        start_ms: int = START_MS,
        rows_a_part: int = 1000,
        solve: Callable[[Market], ClearingResult] = clear,
    ) -> None:
        self.market = market
        self.next_cycle = 0
        self._start_ms = start_ms
        self._rows_a_part = rows_a_part
        self._solve = solve
        self._jobs: Jobs = {}
        self._teams: Teams = {}
        self._framed = False

    def cleared(self, market: Market, *, key: bool = False) -> RecordedCycle:
        """Clear a market and record it; jobs of size 0 are none."""
        result = self._solve(market)
        jobs = {
            f"{team.team}/{job.job}": FoldedJob(job.size_macc, job.limit_micro)
            for team in market.teams
            for job in team.jobs
            if job.size_macc
        }
        teams = {
            team.team: FoldedTeam(
                team.pool,
                team.bid_micro_per_hour,
                result.teams[team.team].allocated_macc,
                result.teams[team.team].opportunistic_macc,
            )
            for team in market.teams
        }
        is_key = key or not self._framed
        frames = self._frames(jobs, teams, is_key=is_key)
        self._jobs, self._teams, self._framed = jobs, teams, True
        head = self._head(market).model_copy(
            update={
                "state": MarketState.CLEARED,
                "reference_price_micro": result.reference_price_micro,
                "pools": _pools(market, result),
                "frame": FrameKind.KEY if is_key else FrameKind.CHANGES,
                "frames": len(frames),
                "jobs": len(jobs),
                "teams": len(teams),
            }
        )
        return self._recorded(head, frames)

    def halted(self, market: Market) -> RecordedCycle:
        """Record a cycle in which the market was not cleared."""
        return self._recorded(self._head(market), ())

    def _recorded(self, head: CycleRecorded, frames: Sequence[CycleFramed]) -> RecordedCycle:
        self.next_cycle += 1
        return RecordedCycle(self.market, head.cycle, head, tuple(frames))

    def _time_ms(self) -> int:
        return self._start_ms + self.next_cycle * INTERVAL_MS

    def _head(self, market: Market) -> CycleRecorded:
        return CycleRecorded(
            market=self.market,
            cycle=self.next_cycle,
            barrier=6 * self.next_cycle,
            market_time_ms=self._time_ms(),
            state=MarketState.HALTED,
            reason="",
            input_digest=f"{self.next_cycle:032x}",
            late_inputs=(),
            settlement_barrier=-1,
            shared_supply_macc=market.shared_supply_macc,
            reserve_price_micro=market.reserve_price_micro,
            idle_own_supply=market.idle_own_supply,
            margin=market.margin,
            reference_price_micro=None,
            pools=_pools(market, None),
            frame=FrameKind.NONE,
            frames=0,
            jobs=0,
            teams=0,
        )

    def _frames(self, jobs: Jobs, teams: Teams, *, is_key: bool) -> list[CycleFramed]:
        known_jobs, known_teams = ({}, {}) if is_key else (self._jobs, self._teams)
        new_jobs = [(k, job) for k, job in jobs.items() if known_jobs.get(k) != job]
        new_teams = [(k, team) for k, team in teams.items() if known_teams.get(k) != team]
        removed = (
            tuple(key for key in known_jobs if key not in jobs),
            tuple(key for key in known_teams if key not in teams),
        )
        size = self._rows_a_part
        parts = max(1, -(-len(new_jobs) // size), -(-len(new_teams) // size))
        return [
            self._part(
                ("key" if is_key else "changes", part, parts),
                new_jobs[part * size : (part + 1) * size],
                new_teams[part * size : (part + 1) * size],
                ((), ()) if part else removed,
            )
            for part in range(parts)
        ]

    def _part(
        self,
        place: tuple[str, int, int],
        jobs: Sequence[tuple[str, FoldedJob]],
        teams: Sequence[tuple[str, FoldedTeam]],
        removed: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> CycleFramed:
        return CycleFramed.model_validate(
            {
                "market": self.market,
                "cycle": self.next_cycle,
                "market_time_ms": self._time_ms(),
                "kind": place[0],
                "part": place[1],
                "parts": place[2],
                "job_keys": tuple(key for key, _ in jobs),
                "job_sizes_macc": tuple(job.size_macc for _, job in jobs),
                "job_limits_micro": tuple(job.limit_micro for _, job in jobs),
                "removed_jobs": removed[0],
                "teams": tuple(key for key, _ in teams),
                "team_pools": tuple(team.pool for _, team in teams),
                "bids_micro_per_hour": tuple(team.bid_micro_per_hour for _, team in teams),
                "allocated_macc": tuple(team.allocated_macc for _, team in teams),
                "opportunistic_macc": tuple(team.opportunistic_macc for _, team in teams),
                "removed_teams": removed[1],
            }
        )


def _pools(market: Market, result: ClearingResult | None) -> tuple[PoolCycle, ...]:
    below = None if result is None else result.certificate.pool_prices_below_micro
    found = []
    for pool in sorted(market.pools, key=lambda pool: pool.pool):
        got = None if result is None else result.pools[pool.pool]
        found.append(
            PoolCycle(
                pool=pool.pool,
                own_supply_macc=pool.own_supply_macc,
                weight_micro_per_hour=pool.weight,
                local_income_per_hour=1,
                price_micro=None if got is None else got.price_micro,
                price_below_micro=None if below is None else below[pool.pool],
                purchased_macc=0 if got is None else got.purchased_macc,
                allocated_macc=0 if got is None else got.allocated_macc,
            )
        )
    return tuple(found)
