"""CVXPY with Clarabel beside the cold clear of the same single-level market."""

import warnings
from collections.abc import Iterator
from statistics import median
from typing import Final

from libs.clearing.benchmarks.cold import shape
from libs.clearing.benchmarks.conic import ConicPrice, solve
from libs.clearing.benchmarks.figures import BenchError, Figure, at_least, unbounded
from libs.clearing.benchmarks.instances import Scale, draw_arrays
from libs.clearing.benchmarks.setting import Setting
from libs.clearing.benchmarks.timing import by_turns, rounded, timing
from walras_clearing import clear_arrays
from walras_clearing.arrays import MarketArrays

JOBS_PER_TEAM: Final = (10, 100)
"""As in the measurements from which the bounds were taken, and as in the other rows."""
PIECES: Final = {"a piece a job": False, "merged pieces": True}
"""The form of those measurements (market theory §6), and a smaller one that says the same."""
JUDGED: Final = (10, "a piece a job")
"""What the bounds are about; the other instance and form are shown beside it."""


def against_conic(
    setting: Setting, jobs: int, *, agreement: float, tolerance: float, bound: float
) -> Iterator[Figure]:
    """Divide times of CVXPY by those of the clear, once for each form of the problem.

    Raises
    ------
    BenchError
        The prices differ by more than `agreement`, relative.
    """
    for per_team in JOBS_PER_TEAM:
        count = setting.jobs(jobs)
        scale = Scale(count, max(1, count // per_team), 1, single_level=True)
        market = draw_arrays(scale, setting.seed)
        price = clear_arrays(market).reference_price_micro
        if not price:
            raise BenchError("the market is not short of supply")
        for form, merged in PIECES.items():
            answers, spent_ms = _answers(market, setting, tolerance=tolerance, merged=merged)
            apart = max(abs(answer.price_micro / price - 1.0) for answer in answers)
            if apart > agreement:
                raise BenchError(f"prices differ by {apart:.1e} ({form}): {answers[0].status}")
            ours_ms = median(spent_ms)
            totals = [answer.total_ms for answer in answers]
            solver = [answer.solver_ms for answer in answers]
            yield Figure(
                work=f"CVXPY and Clarabel, {form}, {shape(market)}",
                value=rounded(median(totals) / ours_ms),
                unit="× faster",
                bound=at_least(bound) if (per_team, form) == JUDGED else unbounded(),
                timings={
                    "clear": timing(spent_ms),
                    "CVXPY": timing(totals),
                    "Clarabel alone": timing(solver),
                },
                note=f"prices within {apart:.0e}; against Clarabel's own time "
                f"{median(solver) / ours_ms:,.0f} ×; status {answers[-1].status}",
            )


def _answers(
    market: MarketArrays, setting: Setting, *, tolerance: float, merged: bool
) -> tuple[list[ConicPrice], list[float]]:
    """Return what the solver says in each turn that counts, and our times in milliseconds."""
    answers: list[ConicPrice] = []

    def conic() -> None:
        with warnings.catch_warnings():
            # "may be inaccurate": the agreement is checked.
            warnings.simplefilter("ignore")
            answers.append(solve(market, tolerance=tolerance, merged=merged))

    samples = by_turns({"clear": lambda: clear_arrays(market), "conic": conic}, setting.runs)
    return answers[1:], samples["clear"]
