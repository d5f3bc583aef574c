"""What jobs cost, from charge lines, their corrections and credits."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from walras.billing_log.amounts import NUMERATOR_PER_MICRO, half_even, mean_price_micro
from walras.report.records import LogRecord
from walras_contracts.charges import ChargeCredited, ChargeReason
from walras_contracts.work import WorkClass

SHOWN = 10
_OPPORTUNISTIC, _OVERLAP = WorkClass.OPPORTUNISTIC.value, ChargeReason.OVERLAP.value


@dataclass(slots=True)
class JobCost:
    """What a job used and what it costs."""

    use_numerator: int = 0
    credit_numerator: int = 0
    paid_macc_ms: int = 0
    """Billable use that is not opportunistic."""
    free_macc_ms: int = 0
    markets: set[str] = field(default_factory=set)


@dataclass(slots=True)
class CostBook:
    """Folds the charge lines by team and job; a week has some millions of them."""

    jobs: dict[tuple[str, str], JobCost] = field(default_factory=dict)

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``charges``."""
        for record in records:
            body = record.body()
            key = body["team"], body["job"]
            job = self.jobs.get(key)
            if job is None:
                job = self.jobs[key] = JobCost()
            numerator = int(body["amount_numerator"])
            if record.type == ChargeCredited.TYPE:
                job.credit_numerator += numerator
                continue
            job.use_numerator += numerator
            job.markets.add(body["market"])
            macc_ms = body["quantity_macc"] * (body["end_ms"] - body["start_ms"])
            if body["corrects"] is not None:
                # Only an overlap takes back use; a late price changes what it costs.
                macc_ms = -macc_ms if body["reason"] == _OVERLAP else 0
            if body["billable"] and body["work_class"] != _OPPORTUNISTIC:
                job.paid_macc_ms += macc_ms
            else:
                job.free_macc_ms += macc_ms

    def largest(self) -> dict[str, list[dict[str, Any]]]:
        """Return the jobs that cost most, by team: at most ten each, those that cost something."""
        found: dict[str, list[dict[str, Any]]] = {}
        for (team, job), cost in sorted(self.jobs.items(), key=_dearest_first):
            rows = found.setdefault(team, [])
            if len(rows) < SHOWN and (cost.use_numerator or cost.credit_numerator):
                rows.append(
                    {
                        "job": job,
                        "markets": sorted(cost.markets),
                        "paid_macc_ms": cost.paid_macc_ms,
                        "free_macc_ms": cost.free_macc_ms,
                        "mean_price_micro": mean_price_micro(cost.use_numerator, cost.paid_macc_ms),
                        "use_micro": half_even(cost.use_numerator, NUMERATOR_PER_MICRO),
                        "credits_micro": half_even(cost.credit_numerator, NUMERATOR_PER_MICRO),
                    }
                )
        return found


def _dearest_first(item: tuple[tuple[str, str], JobCost]) -> tuple[str, int, str]:
    (team, job), cost = item
    return team, -(cost.use_numerator + cost.credit_numerator), job
