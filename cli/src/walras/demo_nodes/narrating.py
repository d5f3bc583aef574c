"""Tells the story as it happens: a line an event, and on a terminal a line that lives."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from walras.billing_log.amounts import scaled_text
from walras.demo_nodes.finding import Finding
from walras.demo_nodes.scenario import NodesScenario
from walras_contracts.demand import DemandRejected
from walras_contracts.drains import VacateRequested
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    JobState,
    JobStatusChanged,
    LeaseState,
    LeaseStatusChanged,
)

PERIOD_S: Final = 0.5
MOMENTS: Final = frozenset({"spike_ms", "warned_ms", "saved_ms", "freed_ms", "grace_end_ms"})
"""Figures that are market times, not durations: the picture shows them."""
DRAIN_WORDS: Final = {
    DrainState.WARNED: "is warned",
    DrainState.CHECKPOINTING: "saves a checkpoint",
    DrainState.WAITING: "has saved all",
    DrainState.TERMINATING: "is asked to end",
    DrainState.VERIFYING: "has ended; its devices are being looked at",
    DrainState.FREED: "has left its devices free",
    DrainState.FAILED: "could not be drained",
    DrainState.CANCELLED: "may stay",
}


class EventWords:
    """Turns events into lines; what repeats is told once."""

    def __init__(self) -> None:
        self._price: int | None = None
        self._drain: dict[str, DrainState] = {}
        self._waits: dict[str, str] = {}

    @property
    def price_micro(self) -> int | None:
        """The newest price, µcr per accelerator-hour; None before the first."""
        return self._price

    def line(self, event: Event) -> str | None:
        """Return what to say of an event, if anything."""
        line: str | None = None
        match event:
            case PricePublished():
                line = self._of_price(event)
            case JobStatusChanged():
                line = self._of_job(event)
            case LeaseStatusChanged():
                line = _of_lease(event)
            case VacateRequested():
                line = f"{event.team}/{event.job} has to leave: {event.reason.replace('_', ' ')}"
            case DrainStatusChanged():
                line = self._of_drain(event)
            case DemandRejected():
                line = f"rejected: {event.reason} [{event.code}]"
            case _:
                pass
        return line

    def _of_drain(self, event: DrainStatusChanged) -> str | None:
        if self._drain.get(event.session) is event.state:
            return None
        self._drain[event.session] = event.state
        after_s = scaled_text((event.at_ms - event.warned_ms) // 10, 2)
        words = DRAIN_WORDS.get(event.state, event.state.value)
        return f"{event.team}/{event.job} {words} ({after_s} s after the warning)"

    def _of_price(self, event: PricePublished) -> str | None:
        before, self._price = self._price, event.reference_price_micro
        if before == self._price:
            return None
        return f"the price is {price_text(self._price)} cr/acc·h, was {price_text(before)}"

    def _of_job(self, event: JobStatusChanged) -> str | None:
        if (
            event.state is not JobState.PENDING
            or self._waits.get(event.record_key()) == event.reason
        ):
            return None
        self._waits[event.record_key()] = event.reason
        return f"{event.record_key()} waits: {event.reason.replace('_', ' ')}"


class Narrator:
    """Prints the story; use as a context manager.

    Parameters
    ----------
    console
        Where to; on a terminal a bar shows how far the training is.
    scenario
        What is played.
    made
        Returns the last step that the job made.
    """

    def __init__(self, console: Console, scenario: NodesScenario, made: Callable[[], int]) -> None:
        self._console = console
        self._made = made
        self._words = EventWords()
        self._began_s = time.monotonic()
        self._looked_s = float("-inf")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("step {task.completed}/{task.total} · {task.fields[price]} cr/acc·h"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not console.is_terminal,
        )
        subject = scenario.subject
        self._task = self._progress.add_task(subject.key, total=subject.steps, price="–")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line with the time since the beginning."""
        seconds = f"{time.monotonic() - self._began_s:6.1f} s"
        self._console.print(f"{seconds}  {line}", highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the living line away while something else draws on the terminal."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def happened(self, event: Event) -> None:
        """Tell an event of the log."""
        line = self._words.line(event)
        if line is not None:
            self.say(line)

    def look(self) -> None:
        """Show how far it is; called as often as one likes."""
        now_s = time.monotonic()
        if self._console.is_terminal and now_s - self._looked_s >= PERIOD_S:
            self._looked_s = now_s
            price = price_text(self._words.price_micro)
            self._progress.update(self._task, completed=self._made(), price=price)


def price_text(micro: int | None) -> str:
    """Return a price with two decimals, for people."""
    return "–" if micro is None else scaled_text((micro * 100 + PPM // 2) // PPM, 2)


def facts_table(findings: list[Finding]) -> Table:
    """Return the facts as a table."""
    table = Table(title="What the log and the checkpoints say", title_justify="left")
    table.add_column("fact")
    table.add_column("holds")
    table.add_column("figures", overflow="fold")
    for found in findings:
        words = found.statement if found.holds else "; ".join(found.faults)
        table.add_row(found.name, "yes" if found.holds else "NO", f"{words}\n{figures_text(found)}")
    return table


def figures_text(found: Finding) -> str:
    """Return the figures of a fact in one line; prices as credits, digests cut, no moments."""
    words = []
    for name, value in found.figures.items():
        if name in MOMENTS:
            continue
        if name.endswith("_micro") and (value is None or isinstance(value, int)):
            words.append(f"{name.removesuffix('_micro')} {price_text(value)}")
        elif isinstance(value, list):
            words.append(f"{name} {', '.join(map(str, value))}")
        elif isinstance(value, float):
            words.append(f"{name} {value:.4f}")
        else:
            words.append(f"{name} {str(value)[:24]}")
    return " · ".join(word.replace("_", " ") for word in words)


def _of_lease(event: LeaseStatusChanged) -> str | None:
    job = f"{event.team}/{event.job}"
    if event.state is LeaseState.RUNNING:
        return f"{job} runs on {event.node}"
    if event.state is LeaseState.FREED:
        detail = f" ({event.detail})" if event.detail else ""
        return f"{job} is gone from {event.node}: {event.outcome.value}{detail}"
    if event.state is LeaseState.STUCK:
        return f"{job} is stuck on {event.node}: {event.detail}"
    return None
