"""Durations of single steps, from the metrics that a service serves."""

import asyncio
import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.performance.outside import BenchError

DECIDE = "walras_step_duration_seconds"
COMMIT = "walras_commit_duration_seconds"
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all partitions since the process began."""

    steps: int
    decide_s: float
    commit_s: float

    def since(self, before: "Totals", steps: int) -> "Totals":
        """Return the part after ``before``.

        Raises
        ------
        BenchError
            That part has another number of steps than it should.
        """
        if self.steps - before.steps != steps:
            raise BenchError(f"{self.steps - before.steps} steps were counted, not {steps}")
        return Totals(steps, self.decide_s - before.decide_s, self.commit_s - before.commit_s)


async def totals(port: int) -> Totals:
    """Read the metrics of the process behind a loopback port."""
    text = await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/metrics")
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return Totals(
        int(sums.get(f"{COMMIT}_count", 0)),
        sums.get(f"{DECIDE}_sum", 0.0),
        sums.get(f"{COMMIT}_sum", 0.0),
    )


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    return body.decode()
