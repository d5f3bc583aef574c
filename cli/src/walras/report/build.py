"""report.json: every figure of a run, computed from its log in one pass per topic."""

from typing import Any

from walras.report.counts import Tally
from walras.report.cycles import CycleBook
from walras.report.definitions import DEFINITIONS
from walras.report.drains import DrainBook
from walras.report.job_costs import CostBook
from walras.report.jobs import JobBook
from walras.report.leases import LeaseBook
from walras.report.ledger import LedgerBook
from walras.report.placement import PlacementBook
from walras.report.prices import PriceBook, SupplyBook
from walras.report.records import ReportError, RunContext, Topics
from walras.report.series import Bins, percentiles, ratio_ppm
from walras.report.teams import BalanceBook, fairness, team_rows
from walras.report.usage import UsageBook
from walras_contracts.work import WorkClass

FORMAT = "walras.report.v1"
NEEDED = (
    *("supply", "prices", "cycles", "quotas", "demand", "job.status", "usage", "balances"),
    *("ledger", "charges"),
    *("placement.figures", "leases", "vacate", "lease.status", "drain.status", "drain.sessions"),
)


def build_report(context: RunContext, topics: Topics) -> dict[str, Any]:
    """Compute the report of a run.

    Parameters
    ----------
    context
        What was replayed.
    topics
        Committed records by short topic name. Each iterable is read once, topic after topic, so it
        may read from the broker lazily; ``NEEDED`` must be there, all others are only counted.

    Raises
    ------
    ReportError
        A needed topic is missing, or a record of one cannot be read.
    """
    if missing := [topic for topic in NEEDED if topic not in topics]:
        raise ReportError(f"the log lacks the topics {', '.join(missing)}")
    tally = Tally()
    supply, prices, cycles = SupplyBook(), PriceBook(), CycleBook()
    supply.fold(tally.read("supply", topics["supply"]))
    prices.fold(tally.read("prices", topics["prices"]))
    cycles.fold(tally.read("cycles", topics["cycles"]))
    end_ms = _covered_until_ms(context, cycles)
    bins = Bins.over(context.start_ms, end_ms)
    jobs, usage, balances = JobBook(bins), UsageBook(bins, prices), BalanceBook()
    tally.count("quotas", topics["quotas"])
    jobs.fold_demand(tally.read("demand", topics["demand"]))
    jobs.fold_status(tally.read("job.status", topics["job.status"]))
    balances.fold(tally.read("balances", topics["balances"]))
    usage.fold(tally.read("usage", topics["usage"]))
    ledger, costs = LedgerBook(bins), CostBook()
    ledger.fold(tally.read("ledger", topics["ledger"]))
    costs.fold(tally.read("charges", topics["charges"]))
    placement, leases, drains = PlacementBook(bins), LeaseBook(), DrainBook(end_ms)
    placement.fold(tally.read("placement.figures", topics["placement.figures"]))
    leases.fold_grants(tally.read("leases", topics["leases"]))
    leases.fold_vacates(tally.read("vacate", topics["vacate"]))
    leases.fold_status(tally.read("lease.status", topics["lease.status"]))
    drains.fold_status(tally.read("drain.status", topics["drain.status"]))
    drains.fold_sessions(tally.read("drain.sessions", topics["drain.sessions"]))
    for topic in sorted(topics.keys() - set(NEEDED)):
        tally.count(topic, topics[topic])
    rows = team_rows(context.pool_of_team, balances, usage.teams, jobs)
    latencies = tally.latencies_ms()
    return {
        "format": FORMAT,
        "scenario": _scenario(context),
        "seed": context.seed,
        "hours": context.hours,
        "window": {
            "start_ms": context.start_ms,
            "end_ms": context.end_ms,
            "covered_until_ms": end_ms,
            "complete": end_ms == context.end_ms,
            "interval_ms": context.interval_ms,
        },
        "run": dict(context.run),
        "events": tally.report(),
        "digests": {topic: digest.hexdigest() for topic, digest in tally.digests.items()},
        "cycles": cycles.report(),
        "latency": {
            "barriers": len(latencies),
            "tick_to_commit_ms": percentiles(latencies),
            "hops_ms": tally.hops(),
            "backward": tally.backward(),
        },
        "bins": {"width_ms": bins.width_ms, "starts_ms": bins.starts()},
        "occupancy": _occupancy(supply, cycles, usage, bins),
        "prices": prices.report(bins),
        "jobs": jobs.report(),
        "placement": {
            **placement.report(),
            "leases": leases.report(),
            "waits": jobs.wait_report(),
        },
        "drains": drains.report(),
        "settled_until_ms": balances.settled_ms(),
        "fairness": fairness(rows, usage.teams),
        "teams": rows,
        "money": {**ledger.report(balances.last), "largest_jobs": costs.largest()},
        "definitions": dict(DEFINITIONS),
    }


def _covered_until_ms(context: RunContext, cycles: CycleBook) -> int:
    """Return the end of the last interval that a decided cycle governs, inside the window."""
    if cycles.last_time_ms is None:
        raise ReportError("the log holds no cycle summary: no cycle was decided")
    return min(context.end_ms, cycles.last_time_ms + context.interval_ms)


def _scenario(context: RunContext) -> dict[str, Any]:
    return {
        "name": context.scenario,
        "title": context.title,
        "real": list(context.real),
        "invented": list(context.invented),
        "trace": dict(context.trace),
        "trace_facts": dict(context.trace_facts),
        "devices_by_type": dict(context.devices_by_type),
        "policies": dict(context.policies),
    }


def _occupancy(
    supply: SupplyBook, cycles: CycleBook, usage: UsageBook, bins: Bins
) -> dict[str, Any]:
    """Return use against supply per market and in all, with means over each bin in macc."""
    names = sorted({*supply.markets, *(market for market, _ in usage.occupied)})
    markets: dict[str, Any] = {}
    supplied_sum = leased_sum = opportunistic_sum = 0
    for market in names:
        supplied = supply.macc_ms(market, bins)
        opportunistic = usage.macc_ms(market, WorkClass.OPPORTUNISTIC)
        overhang = usage.macc_ms(market, WorkClass.OVERHANG)
        leased = usage.macc_ms(market, *WorkClass)
        markets[market] = {
            "occupancy_ppm": ratio_ppm(sum(leased), sum(supplied)),
            "opportunistic_share_ppm": ratio_ppm(sum(opportunistic), sum(leased)),
            "overhang_share_ppm": ratio_ppm(sum(overhang), sum(leased)),
            "supplied_macc_ms": sum(supplied),
            "leased_macc_ms": sum(leased),
            "supply_macc": _mean_macc(supplied, bins),
            "leased_macc": _mean_macc(leased, bins),
            "opportunistic_macc": _mean_macc(opportunistic, bins),
            "overhang_macc": _mean_macc(overhang, bins),
            "demand_macc": cycles.demand_macc(market, bins),
        }
        supplied_sum += sum(supplied)
        leased_sum += sum(leased)
        opportunistic_sum += sum(opportunistic)
    return {
        "occupancy_ppm": ratio_ppm(leased_sum, supplied_sum),
        "opportunistic_share_ppm": ratio_ppm(opportunistic_sum, leased_sum),
        "supplied_macc_ms": supplied_sum,
        "leased_macc_ms": leased_sum,
        "markets": markets,
    }


def _mean_macc(amounts: list[int], bins: Bins) -> list[int]:
    return [amount // max(1, bins.length_ms(i)) for i, amount in enumerate(amounts)]
