"""The tables of a policy study, and what is asked of them, in SQL.

Money is summed exactly: a price times macc is at most 1000 times a bid and fits 64 bits, times
milliseconds and summed it is a HUGEINT. Divisions are of integers and round down (``//``).
"""

from typing import Final

NUMERATOR_PER_MICRO: Final = 3_600_000_000
"""µcr per accelerator-hour times macc times ms, in 1 µcr: 1000 macc and 3,600,000 ms."""

CREATE_TABLES: Final = """
CREATE TABLE team_cycle (
    market TEXT, cycle BIGINT, pool TEXT, team TEXT,
    duration_ms BIGINT,                     -- NULL: the cycle has no known end
    base_bid_micro_per_hour BIGINT, policy_bid_micro_per_hour BIGINT,
    base_price_micro BIGINT, policy_price_micro BIGINT,
    base_allocated_macc BIGINT, policy_allocated_macc BIGINT,
    base_opportunistic_macc BIGINT, policy_opportunistic_macc BIGINT
);
CREATE TABLE market_cycle (
    market TEXT, cycle BIGINT, duration_ms BIGINT,
    base_price_micro BIGINT, policy_price_micro BIGINT      -- NULL: no shared supply
);
CREATE TABLE impact_cycle (
    market TEXT, cycle BIGINT, run TEXT, pool TEXT,
    price_micro BIGINT, price_without_micro BIGINT
);
"""

TEAM_SUMS: Final = """
SELECT
    market, pool, team,
    count(*) AS cycles,
    sum(duration_ms) AS duration_ms,
    sum(base_price_micro * base_allocated_macc * duration_ms::HUGEINT) AS base_paid,
    sum(policy_price_micro * policy_allocated_macc * duration_ms::HUGEINT) AS policy_paid,
    sum(base_allocated_macc * duration_ms::HUGEINT) AS base_held,
    sum(policy_allocated_macc * duration_ms::HUGEINT) AS policy_held,
    sum(base_opportunistic_macc * duration_ms::HUGEINT) AS base_free,
    sum(policy_opportunistic_macc * duration_ms::HUGEINT) AS policy_free,
    sum(base_bid_micro_per_hour * duration_ms::HUGEINT) AS base_bid,
    sum(policy_bid_micro_per_hour * duration_ms::HUGEINT) AS policy_bid
FROM team_cycle
WHERE duration_ms IS NOT NULL
GROUP BY market, pool, team
ORDER BY market, pool, team
"""

MARKET_PRICES: Final = """
SELECT
    market,
    count(*) AS cycles,
    sum(duration_ms) AS duration_ms,
    sum(base_price_micro * duration_ms::HUGEINT)
        // sum(duration_ms) FILTER (base_price_micro IS NOT NULL) AS base_price_micro,
    sum(policy_price_micro * duration_ms::HUGEINT)
        // sum(duration_ms) FILTER (policy_price_micro IS NOT NULL) AS policy_price_micro
FROM market_cycle
WHERE duration_ms IS NOT NULL
GROUP BY market
ORDER BY market
"""

POOL_IMPACTS: Final = """
SELECT
    market, pool,
    count(DISTINCT cycle) AS samples,
    sum((price_micro - price_without_micro)::HUGEINT) FILTER (run = 'base') AS base_sum,
    count(price_micro - price_without_micro) FILTER (run = 'base') AS base_samples,
    sum((price_micro - price_without_micro)::HUGEINT) FILTER (run = 'policy') AS policy_sum,
    count(price_micro - price_without_micro) FILTER (run = 'policy') AS policy_samples
FROM impact_cycle
GROUP BY market, pool
ORDER BY market, pool
"""
