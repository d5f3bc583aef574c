"""What a row of the table says: a figure, its bound, and whether it keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from libs.clearing.benchmarks.timing import Timing

Outcome = Literal["met", "missed", "not run", "shown"]
Side = Literal["at most", "at least", "none"]


class BenchError(RuntimeError):
    """A measured result is wrong, or a part of the bench could not work: there is no figure."""

    code = "bench_failed"
    retriable = False


@dataclass(frozen=True, slots=True)
class Bound:
    """Up to where, or from where, a figure is good."""

    side: Side
    value: float

    def outcome(self, figure: float | None) -> Outcome:
        """Judge a figure; None was not measured."""
        if figure is None:
            return "not run"
        if self.side == "none":
            return "shown"
        good = figure <= self.value if self.side == "at most" else figure >= self.value
        return "met" if good else "missed"

    def __str__(self) -> str:
        if self.side == "none":
            return "no bound"
        return f"{'≤' if self.side == 'at most' else '≥'} {self.value:,g}"


def at_most(value: float) -> Bound:
    """Return a bound from above."""
    return Bound("at most", value)


def at_least(value: float) -> Bound:
    """Return a bound from below."""
    return Bound("at least", value)


def unbounded() -> Bound:
    """Return the bound of a figure that is shown beside a judged one."""
    return Bound("none", 0.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    `value` is what the bound is about, in `unit`; `timings` are what it was made of, and `note` is
    what a reader must know before believing it. A value of None was not measured, `note` says why.
    """

    work: str
    value: float | None
    unit: str
    bound: Bound
    timings: Mapping[str, Timing] = field(default_factory=dict)
    note: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether the bound is kept."""
        return self.bound.outcome(self.value)
