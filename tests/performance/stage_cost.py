"""What a step of the demo costs each stage in CPU time, on the log in memory: no broker.

Run as ``python -m tests.performance.stage_cost --steps 120``. Nothing is asserted; decoding, the
step itself and its records are in the figures, the wire and the broker are not.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import process_time_ns

from tests.performance.samples import percentile
from tests.performance.workload import SCENARIO
from tests.simulation.world import World
from walras.scenario import load_scenario
from walras.trace import load_window


@dataclass
class MeteredWorld(World):
    """A world that knows how long each step of each runner took."""

    spent_ns: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def _move(self, name: str) -> int:
        began_ns = process_time_ns()
        moved = super()._move(name)
        if moved:
            self.spent_ns[name.partition("/")[0]].append(process_time_ns() - began_ns)
        return moved


def measure(steps: int, seed: int) -> dict[str, list[float]]:
    """Return the CPU milliseconds of every step of each service, after the first third of it.

    Spread services have one figure for each partition and step.
    """
    hours = -(-steps // 60)
    world = MeteredWorld()
    for number in world.replay(load_window(load_scenario(SCENARIO), hours, seed)):
        if number >= steps:
            break
    return {
        name: [ns / 1e6 for ns in spent[len(spent) // 3 :]]
        for name, spent in sorted(world.spent_ns.items())
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print one line per service."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=120, help="steps of a minute (120)")
    parser.add_argument("--seed", type=int, default=1, help="of the demo (1)")
    options = parser.parse_args(argv)
    for name, costs in measure(options.steps, options.seed).items():
        p50, p90 = percentile(costs, 50), percentile(costs, 90)
        print(f"{name:12} p50 {p50:7.2f} ms, p90 {p90:7.2f} ms, most {max(costs):7.2f} ms a step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
