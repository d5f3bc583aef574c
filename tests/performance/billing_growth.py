"""What a usage event costs billing while 10⁴ to 10⁶ leases are open: CPU time, no broker.

Each size runs in a process of its own: ``python -m tests.performance.billing_growth --leases N``
prints its figures as JSON. All leases have reported once; then, minute by minute, as many events of
leases drawn from all of them are decoded, taken in, rated and encoded at every size. So what
differs is how much billing remembers.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.performance.billing_workload import BillingSize, BillingWorkload
from tests.performance.machine import ROOT
from tests.performance.outside import BenchError
from tests.performance.samples import Spread, spread
from walras_billing.settings import Settings
from walras_billing.wiring import build
from walras_contracts.charges import ChargeRated
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_contracts.work import UsageMetered
from walras_runtime.collecting import collect_between_steps, collect_when_idle
from walras_runtime.records import Output, Record, Step, emit
from walras_runtime.stage import Stage

TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """Sizes to compare, events a step (no more than the smallest size), steps, draws."""

    leases: tuple[int, ...]
    events: int
    settle: int
    steps: int
    teams: int
    pools: int
    seed: int


@dataclass(frozen=True, slots=True)
class GrowthFigures:
    """Microseconds of CPU an event, step by step, with so many leases open."""

    leases: int
    events_per_step: int
    steps: int
    cpu_us_per_event: Spread


def measure_growth(plan: GrowthPlan, say: Callable[[str], None]) -> tuple[GrowthFigures, ...]:
    """Measure every size, each in a process of its own.

    Raises
    ------
    BenchError
        One did not end well.
    """
    found = []
    for leases in plan.leases:
        figures = _measured_apart(plan, leases)
        cost = figures.cpu_us_per_event
        say(f"{leases:,} open leases: {cost.median:.1f} µs of CPU an event")
        found.append(figures)
    return tuple(found)


def _measured_apart(plan: GrowthPlan, leases: int) -> GrowthFigures:
    options = {"leases": leases, "events": plan.events, "settle": plan.settle, "steps": plan.steps}
    options |= {"teams": plan.teams, "pools": plan.pools, "seed": plan.seed}
    program = [sys.executable, "-m", "tests.performance.billing_growth"]
    program += [text for name, value in options.items() for text in (f"--{name}", str(value))]
    try:
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{leases} leases: no figure within {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BenchError(f"{leases} leases: {done.stderr.strip()[-2000:]}")
    document = json.loads(done.stdout.splitlines()[-1])
    cost = Spread(**document.pop("cpu_us_per_event"))
    return GrowthFigures(**document, cpu_us_per_event=cost)


def measure(plan: GrowthPlan) -> GrowthFigures:
    """Measure the first size of a plan in this process.

    Raises
    ------
    BenchError
        An event was not charged.
    """
    leases = plan.leases[0]
    feed = Feed(plan, leases)
    collect_between_steps()
    for first in range(0, leases, plan.events):
        feed.step(range(first, min(leases, first + plan.events)))
    draw = random.Random(plan.seed)
    costs = []
    for number in range(plan.settle + plan.steps):
        cost = feed.step(sorted(draw.sample(range(leases), plan.events)))
        if number >= plan.settle:
            costs.append(1e6 * cost / plan.events)
    # All but what was taken in by the last step, whose grace is not over.
    if feed.charged != feed.events - plan.events:
        raise BenchError(f"{feed.charged} charges of {feed.events} events")
    return GrowthFigures(leases, plan.events, plan.steps, spread(costs))


class Feed:
    """One stage that is given a minute after the other."""

    def __init__(self, plan: GrowthPlan, leases: int) -> None:
        size = BillingSize(leases, plan.teams, plan.pools, plan.seed)
        self._workload = BillingWorkload(size)
        self._seq = [0] * leases
        self._spec = build(Settings(kafka_bootstrap="none", partitions=1))
        self._stage: Stage = self._spec.build(0)
        self._number = 0
        self._offset = 0
        self.events = self.charged = 0
        for document in self._workload.documents():
            self._stage.fold(self._decoded(document))

    def step(self, leases: Sequence[int]) -> float:
        """Give a minute's use of some leases; return the CPU seconds that the step took."""
        self._number += 1
        number = self._number
        records: dict[str, list[Record]] = {source.topic: [] for source in self._spec.inputs}
        records[PricePublished.TOPIC] = [*map(self._decoded, self._workload.prices(number))]
        records[UsageMetered.TOPIC] = [*self._use(number, leases)]
        began = process_time()
        result = self._stage.step(Step(self._workload.barrier(number), records))
        collect_when_idle()
        cost = process_time() - began
        self.events += len(leases)
        self.charged += sum(output.type == ChargeRated.TYPE for output in result.outputs)
        return cost

    def _use(self, number: int, leases: Sequence[int]) -> Iterator[Record]:
        for index in leases:
            only, seq = range(index, index + 1), self._seq[index]
            self._seq[index] += 1
            for output in self._workload.usage(number, only, seq):
                yield self._record(output)

    def _decoded(self, event: Event) -> Record:
        record = self._record(emit(event))
        record.event = event
        return record

    def _record(self, output: Output) -> Record:
        self._offset += 1
        return Record(output.topic, 0, self._offset, output.key, output.type, output.payload)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one size; print one JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("leases", "events", "settle", "steps", "teams", "pools", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = vars(parser.parse_args(argv))
    figures = measure(GrowthPlan(**options | {"leases": (options["leases"],)}))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
