"""How the rows of a run are measured."""

from dataclasses import dataclass
from typing import Final

from libs.clearing.benchmarks.timing import RUNS

QUICK_RUNS: Final = 2
QUICK_DIVISOR: Final = 100
LEAST_JOBS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Setting:
    """`runs` turns of each work, on instances whose sizes are divided by `divisor`."""

    seed: int
    runs: int = RUNS
    divisor: int = 1

    def jobs(self, full: int) -> int:
        """Return the number of jobs to take instead of `full`."""
        return max(LEAST_JOBS, full // self.divisor)


def setting_of(seed: int, *, quick: bool) -> Setting:
    """Return the setting of a full run, or of one that only shows that the bench works."""
    return Setting(seed, QUICK_RUNS, QUICK_DIVISOR) if quick else Setting(seed)
