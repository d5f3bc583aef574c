"""The events of a cycle, per market: prices, the cycle record, its summary."""

from walras_clearing import ClearingResult
from walras_clearing_service.bidder import MACC_PER_ACCELERATOR
from walras_clearing_service.cycle import MarketOutcome
from walras_clearing_service.model import CycleInput
from walras_contracts.event import Event
from walras_contracts.market import (
    CycleRecorded,
    CycleSummarised,
    PoolCertificate,
    PoolPrice,
    PricePublished,
    TeamOutcome,
)
from walras_contracts.quantities import PPM

SUMMARY_BYTES_MAX = 50_000
RECORD_BYTES_MAX = 512 * 1024


def price_published(
    cycle_input: CycleInput, outcome: MarketOutcome, pools: tuple[PoolPrice, ...]
) -> PricePublished:
    """Return the prices of a market that was cleared."""
    assert outcome.result is not None
    return PricePublished(
        market=outcome.market.market,
        cycle=cycle_input.cycle,
        market_time_ms=cycle_input.market_time_ms,
        reference_price_micro=outcome.result.reference_price_micro,
        pools=pools,
    )


def pool_prices(cycle_input: CycleInput, result: ClearingResult | None) -> tuple[PoolPrice, ...]:
    """Return every pool's price with the rate at which it mints; empty without a result."""
    if result is None:
        return ()
    return tuple(
        PoolPrice(
            pool=pool.pool,
            price_micro=result.pools[pool.pool].price_micro,
            weight_micro_per_hour=pool.weight_micro_per_hour,
            local_income_per_hour=pool.local_income_per_hour,
        )
        for pool in cycle_input.pools
    )


def cycle_recorded(
    cycle_input: CycleInput,
    outcome: MarketOutcome,
    pools: tuple[PoolPrice, ...],
    *,
    digest: str,
    late: tuple[str, ...],
) -> CycleRecorded:
    """Return the record of a cycle: input digest, bids, results, certificate, policies.

    A record beyond 512 KiB loses its last teams, and says so in its reason.
    """
    market, result = outcome.market, outcome.result
    below = result.certificate.pool_prices_below_micro if result is not None else None
    teams = _team_outcomes(outcome)
    record = CycleRecorded(
        market=market.market,
        cycle=cycle_input.cycle,
        barrier=cycle_input.barrier,
        market_time_ms=cycle_input.market_time_ms,
        state=outcome.state,
        reason=outcome.reason,
        input_digest=digest,
        late_inputs=late,
        settlement_barrier=cycle_input.settlement_barrier,
        shared_supply_macc=market.shared_macc,
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply.value,
        margin=market.margin.value,
        reference_price_micro=result.reference_price_micro if result is not None else None,
        pools=pools,
        certificate=tuple(
            PoolCertificate(pool=pool, price_below_micro=below[pool]) for pool in sorted(below)
        )
        if below is not None
        else (),
        teams=teams,
    )
    if _kept(record, "teams", RECORD_BYTES_MAX) == len(teams):
        return record
    # What it says about the cut takes room, too.
    longest = record.model_copy(update={"reason": f"teams_cut: {len(teams)} of {len(teams)}"})
    kept = _kept(longest, "teams", RECORD_BYTES_MAX)
    cut = {"teams": teams[:kept], "reason": f"teams_cut: {kept} of {len(teams)}"}
    return record.model_copy(update=cut)


def cycle_summarised(
    cycle_input: CycleInput, outcome: MarketOutcome, pools: tuple[PoolPrice, ...]
) -> CycleSummarised:
    """Return the summary for boards; beyond 50 KB it keeps the first pools in id order."""
    market, result, counts = outcome.market, outcome.result, outcome.counts
    supply = market.total_macc
    held = counts.running_macc
    figures = result.teams.values() if result is not None else ()
    paid = result.pools.values() if result is not None else ()
    summary = CycleSummarised(
        market=market.market,
        cycle=cycle_input.cycle,
        market_time_ms=cycle_input.market_time_ms,
        state=outcome.state,
        reference_price_micro=result.reference_price_micro if result is not None else None,
        pool_prices=pools,
        supply_macc=supply,
        demand_macc=sum(bid.demand_macc for bid in outcome.bids),
        allocated_macc=sum(team.allocated_macc for team in figures),
        opportunistic_macc=sum(team.opportunistic_macc for team in figures),
        jobs_queued=counts.queued,
        jobs_running=counts.running,
        revenue_micro_per_hour=sum(
            (pool.price_micro or 0) * pool.allocated_macc // MACC_PER_ACCELERATOR for pool in paid
        ),
        occupancy_ppm=min(1000 * PPM, held * PPM // supply) if supply else 0,
    )
    kept = _kept(summary, "pool_prices", SUMMARY_BYTES_MAX)
    if kept == len(pools):
        return summary
    return summary.model_copy(update={"pool_prices": pools[:kept]})


def _team_outcomes(outcome: MarketOutcome) -> tuple[TeamOutcome, ...]:
    if outcome.result is None:
        return ()
    teams = outcome.result.teams
    return tuple(
        TeamOutcome(
            team=bid.team,
            pool=bid.pool,
            bid_micro_per_hour=bid.bid_micro_per_hour,
            demand_macc=bid.demand_macc,
            allocated_macc=teams[bid.team].allocated_macc,
            opportunistic_macc=teams[bid.team].opportunistic_macc,
        )
        for bid in outcome.bids
    )


def _kept(event: Event, field: str, bytes_max: int) -> int:
    """Return how many items of a tuple field an event may keep within a number of bytes."""
    items = getattr(event, field)
    excess = len(event.payload()) - bytes_max
    kept = len(items)
    while kept and excess > 0:
        kept -= 1
        # One for the comma between two items.
        excess -= len(items[kept].model_dump_json()) + 1
    return kept
