"""Money and fairness per team."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.billing_log.amounts import mean_price_micro
from walras.report.jobs import JobBook
from walras.report.records import LogRecord
from walras.report.series import ratio_ppm
from walras.report.usage import TeamUse

PRICE_RATIO = (
    "mean price a team paid / mean price all paid; opportunistic and unbilled use left out of both"
)
SHARE_RATIO = "a team's share of all use / its share of all income"


@dataclass(slots=True)
class BalanceBook:
    """The last balance of each team."""

    last: dict[str, dict[str, Any]] = field(default_factory=dict)

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``balances``."""
        for record in records:
            self.last[record.key] = record.body()

    def settled_ms(self) -> int | None:
        """Return the newest settled boundary."""
        return max((balance["boundary_ms"] for balance in self.last.values()), default=None)


def team_rows(
    pool_of_team: Mapping[str, str],
    balances: BalanceBook,
    uses: Mapping[str, TeamUse],
    jobs: JobBook,
) -> list[dict[str, Any]]:
    """Return one row per team, by pool and team."""
    teams = dict(pool_of_team)
    for team, balance in balances.last.items():
        teams.setdefault(team, balance["pool"])
    earned_micro = sum(balance["earned_micro"] for balance in balances.last.values())
    used_macc_ms = sum(use.total_macc_ms for use in uses.values())
    global_micro = global_price_micro(uses)
    rows = []
    for team, pool in sorted(teams.items(), key=lambda item: (item[1], item[0])):
        balance = balances.last.get(team, {})
        use = uses.get(team, TeamUse())
        income_share = ratio_ppm(balance.get("earned_micro", 0), earned_micro)
        use_share = ratio_ppm(use.total_macc_ms, used_macc_ms)
        mean_micro = use.mean_price_micro()
        rows.append(
            {
                "team": team,
                "pool": pool,
                "income_micro": balance.get("earned_micro"),
                "spent_micro": balance.get("spent_micro"),
                "wallet_micro": balance.get("wallet_micro"),
                "expired_micro": balance.get("expired_micro"),
                "credited_micro": balance.get("credited_micro"),
                "rated_micro": use.rated_micro,
                "used_macc_ms": use.total_macc_ms,
                "opportunistic_macc_ms": use.opportunistic_macc_ms,
                "overhang_macc_ms": use.overhang_macc_ms,
                "unpriced_macc_ms": use.unpriced_macc_ms,
                "idle_paid_macc_ms": use.idle_paid_macc_ms,
                "share_of_use_ppm": use_share,
                "share_of_income_ppm": income_share,
                "share_ratio_ppm": None
                if use_share is None or income_share is None
                else ratio_ppm(use_share, income_share),
                "mean_price_micro": mean_micro,
                "price_ratio_ppm": None
                if mean_micro is None or global_micro is None
                else ratio_ppm(mean_micro, global_micro),
                **jobs.of_team(team),
            }
        )
    return rows


def global_price_micro(uses: Mapping[str, TeamUse]) -> int | None:
    """Return the average price of all paid use, µcr per accelerator-hour."""
    return mean_price_micro(
        sum(use.numerator for use in uses.values()),
        sum(use.rated_macc_ms for use in uses.values()),
    )


def fairness(rows: list[dict[str, Any]], uses: Mapping[str, TeamUse]) -> dict[str, Any]:
    """Return the price ratios' extremes and the max-min ratio of shares.

    Teams that submitted no job have no say in the extremes.
    """
    asking = [row for row in rows if row["jobs_submitted"]]
    prices = [row["price_ratio_ppm"] for row in asking if row["price_ratio_ppm"] is not None]
    shares = [row["share_ratio_ppm"] for row in asking if row["share_ratio_ppm"] is not None]
    return {
        "price_ratio": PRICE_RATIO,
        "share_ratio": SHARE_RATIO,
        "global_mean_price_micro": global_price_micro(uses),
        "price_ratio_minimum_ppm": min(prices, default=None),
        "price_ratio_maximum_ppm": max(prices, default=None),
        "share_ratio_minimum_ppm": min(shares, default=None),
        "share_ratio_maximum_ppm": max(shares, default=None),
        "max_min_share_ratio_ppm": ratio_ppm(max(shares), min(shares)) if shares else None,
    }
