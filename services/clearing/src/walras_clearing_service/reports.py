"""The events of a cycle, per market: prices, the cycle record, its summary."""

from collections.abc import Iterator

from walras_clearing.arrays import ABSENT, ClearedArrays
from walras_clearing_service.cycle import Cleared, MarketOutcome
from walras_clearing_service.frames import NO_FRAME
from walras_clearing_service.model import CycleInput, PoolInput
from walras_clearing_service.team_table import MACC_PER_ACCELERATOR
from walras_contracts.market import (
    CycleRecorded,
    CycleSummarised,
    DemandReleased,
    PoolCycle,
    PoolPrice,
    PricePublished,
    ReleaseExtent,
)
from walras_contracts.quantities import PPM

SUMMARY_BYTES_MAX = 50_000


def price_published(
    cycle_input: CycleInput, market: str, result: ClearedArrays, pools: tuple[PoolPrice, ...]
) -> PricePublished:
    """Return the prices of a market that was cleared."""
    return PricePublished(
        market=market,
        cycle=cycle_input.cycle,
        market_time_ms=cycle_input.market_time_ms,
        reference_price_micro=result.reference_price_micro,
        pools=pools,
    )


def pool_prices(cycle_input: CycleInput, result: ClearedArrays | None) -> tuple[PoolPrice, ...]:
    """Return every pool's price with the rate at which it mints; empty without a result."""
    if result is None:
        return ()
    return tuple(
        PoolPrice(
            pool=pool.pool,
            price_micro=_price(price),
            weight_micro_per_hour=pool.weight_micro_per_hour,
            local_income_per_hour=pool.local_income_per_hour,
        )
        for pool, price in zip(cycle_input.pools, result.price_micro.tolist(), strict=True)
    )


def cycle_recorded(
    cycle_input: CycleInput, outcome: MarketOutcome, late: tuple[str, ...]
) -> CycleRecorded:
    """Return the head of a cycle: input digest, policies, results by pool, certificate."""
    market, cleared = outcome.market, outcome.cleared
    result = cleared.result if cleared is not None else None
    frame = cleared.frame if cleared is not None else NO_FRAME
    return CycleRecorded(
        market=market.market,
        cycle=cycle_input.cycle,
        barrier=cycle_input.barrier,
        market_time_ms=cycle_input.market_time_ms,
        state=outcome.state,
        reason=outcome.reason,
        input_digest=cycle_input.digest,
        late_inputs=late,
        settlement_barrier=cycle_input.settlement_barrier,
        shared_supply_macc=market.shared_macc,
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply.value,
        margin=market.margin.value,
        reference_price_micro=result.reference_price_micro if result is not None else None,
        pools=tuple(_pool_cycles(cycle_input.pools, outcome, result)),
        frame=frame.kind,
        frames=len(frame.parts),
        jobs=frame.jobs,
        teams=frame.teams,
        rounding=market.rounding,
        released=_released(cycle_input, cleared),
    )


def cycle_summarised(
    cycle_input: CycleInput, outcome: MarketOutcome, pools: tuple[PoolPrice, ...]
) -> CycleSummarised:
    """Return the summary for boards; beyond 50 KB it keeps the first pools in id order."""
    market, cleared, counts = outcome.market, outcome.cleared, outcome.counts
    supply = market.total_macc
    held = counts.running_macc
    result = cleared.result if cleared is not None else None
    paid = () if result is None else _columns(result)
    summary = CycleSummarised(
        market=market.market,
        cycle=cycle_input.cycle,
        market_time_ms=cycle_input.market_time_ms,
        state=outcome.state,
        reference_price_micro=result.reference_price_micro if result is not None else None,
        pool_prices=pools,
        supply_macc=supply,
        demand_macc=outcome.demand_macc,
        allocated_macc=int(result.allocated_macc.sum()) if result is not None else 0,
        opportunistic_macc=int(result.opportunistic_macc.sum()) if result is not None else 0,
        jobs_queued=counts.queued,
        jobs_running=counts.running,
        revenue_micro_per_hour=sum(
            max(price, 0) * allocated // MACC_PER_ACCELERATOR for price, _, allocated in paid
        ),
        occupancy_ppm=min(1000 * PPM, held * PPM // supply) if supply else 0,
    )
    kept = _kept(summary, SUMMARY_BYTES_MAX)
    if kept == len(pools):
        return summary
    return summary.model_copy(update={"pool_prices": pools[:kept]})


def _released(cycle_input: CycleInput, cleared: Cleared | None) -> tuple[DemandReleased, ...]:
    if cleared is None:
        return ()
    return tuple(
        DemandReleased(
            pool=cycle_input.pools[each.pool_place].pool,
            team=each.head.team,
            job=each.head.job.partition("/")[2],
            needed_macc=each.needed_macc,
            quota_macc=each.quota_macc,
            kept_macc=each.kept_macc,
            extent=ReleaseExtent.WHOLE_JOBS
            if each.head.turn_since_ms is None
            else ReleaseExtent.RUNNING,
        )
        for each in cleared.released
    )


def _pool_cycles(
    pools: tuple[PoolInput, ...], outcome: MarketOutcome, result: ClearedArrays | None
) -> Iterator[PoolCycle]:
    unknown = [(ABSENT, 0, 0)] * len(pools)
    found = unknown if result is None else _columns(result)
    below = [ABSENT] * len(pools)
    if result is not None and result.price_below_micro is not None:
        below = result.price_below_micro.tolist()
    for pool, (price, purchased, allocated), under in zip(pools, found, below, strict=True):
        yield PoolCycle(
            pool=pool.pool,
            own_supply_macc=outcome.market.own_macc.get(pool.pool, 0),
            weight_micro_per_hour=pool.weight_micro_per_hour,
            local_income_per_hour=pool.local_income_per_hour,
            price_micro=_price(price),
            price_below_micro=_price(under),
            purchased_macc=purchased,
            allocated_macc=allocated,
        )


def _columns(result: ClearedArrays) -> list[tuple[int, int, int]]:
    """Return price, purchased and allocated of each pool."""
    columns = (result.price_micro, result.purchased_macc, result.pool_allocated_macc)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _price(price_micro: int) -> int | None:
    return None if price_micro == ABSENT else price_micro


def _kept(summary: CycleSummarised, bytes_max: int) -> int:
    """Return how many pools a summary may keep within a number of bytes."""
    pools = summary.pool_prices
    excess = len(summary.payload()) - bytes_max
    kept = len(pools)
    while kept and excess > 0:
        kept -= 1
        # One for the comma between two pools.
        excess -= len(pools[kept].model_dump_json()) + 1
    return kept
