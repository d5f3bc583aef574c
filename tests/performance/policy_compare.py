"""Replays a trace under each rounding policy, with and without retention: `make compare-policies`.

No broker: the stages of all services on a log in memory, several runs at a time.
`docs/bench/README.md` says how to read the tables.
"""

import argparse
import multiprocessing
import os
import queue
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from traceback import format_exception
from typing import Any

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.performance.machine import ROOT, commit, this_machine
from tests.performance.policy_figures import RunFigures, figures_of
from tests.performance.policy_page import HTML_FILE, JSON_FILE, WIDTH, Comparison, show, write
from tests.performance.policy_replay import PolicyRun, all_runs, replay_report
from walras.report import write_report
from walras.scenario import ScenarioError
from walras_launcher import LauncherError

SCENARIO = ROOT / "scenarios" / "itp_week.toml"
LOOK_S = 0.5
"""So often it is looked whether a process has ended that said nothing."""

Steps = Callable[[int, int, int], None]
"""Takes the index of a run, how many of its steps are done, and of how many."""


class RunBrokenError(RuntimeError):
    """A run broke, or was stopped because another one had; it says which, where and why."""

    code = "run_broken"
    retriable = False


@dataclass(slots=True)
class _Teller:
    """Where a process tells how far its runs are, and hears that they are to stop.

    Set once, when it starts.
    """

    told: Any = None
    stopped: Any = None


_TELLER = _Teller()


def _begin(told: Any, stopped: Any) -> None:
    _TELLER.told, _TELLER.stopped = told, stopped
    # Nobody may listen any more when a process ends: it waits for no one.
    told.cancel_join_thread()


def _replay(index: int, run: PolicyRun, out: Path) -> RunFigures:
    """Replay one run, write its report, and return its figures."""
    try:
        return _replayed(index, run, out)
    except Exception as error:  # noqa: BLE001 - it is told, and ends the comparison
        # Not every error can be sent from one process to another; words can.
        raise RunBrokenError(f"{run.name}: {''.join(format_exception(error))}") from None


def _replayed(index: int, run: PolicyRun, out: Path) -> RunFigures:
    began_s = perf_counter()

    def step(done: int, total: int) -> None:
        if _TELLER.stopped.is_set():
            raise RunBrokenError("stopped")
        _TELLER.told.put((index, done, total))

    folder = out / run.name
    folder.mkdir(parents=True, exist_ok=True)
    report = replay_report(run, folder, step)
    report["run"]["seconds"] = round(perf_counter() - began_s)
    write_report(folder, report)
    return figures_of(run, report)


def compare(runs: Sequence[PolicyRun], out: Path, workers: int, steps: Steps) -> list[RunFigures]:
    """Replay all runs, ``workers`` at a time, and return their figures in the order of the runs.

    Raises
    ------
    RunBrokenError
        A run broke; the others are stopped at their next step.
    """
    context = multiprocessing.get_context("spawn")
    told, stopped = context.Queue(), context.Event()
    with ProcessPoolExecutor(workers, context, _begin, (told, stopped)) as pool:
        futures = [pool.submit(_replay, i, run, out) for i, run in enumerate(runs)]
        try:
            _follow(futures, told, steps)
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _follow(futures: Sequence["Future[RunFigures]"], told: Any, steps: Steps) -> None:
    """Pass on how far the runs are, until all have ended or one has failed."""
    while not all(future.done() for future in futures):
        for future in futures:
            if future.done():
                future.result()
        with suppress(queue.Empty):
            steps(*told.get(timeout=LOOK_S))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compare-policies", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--hours", type=int, default=24, help="market time of each run (24)")
    parser.add_argument("--seed", type=int, default=1, help="of what the scenario invents (1)")
    parser.add_argument("--out", type=Path, default=Path("out/policies"), help="folder of results")
    parser.add_argument("--scenario", type=Path, default=SCENARIO, help="scenario file")
    parser.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="runs at a time (the number of cores)",
    )
    parser.add_argument("--json", action="store_true", help="print the document, no tables")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; return the exit code: 0 done, 1 a run broke, 2 not possible as asked."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        results = _measure(options, messages)
    except (ScenarioError, LauncherError) as error:
        messages.print(f"compare-policies: {error}", markup=False)
        return 2
    except BrokenProcessPool as error:
        messages.print(f"compare-policies: the process of a run is gone: {error}", markup=False)
        return 1
    except RunBrokenError as error:
        messages.print(f"compare-policies: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    for path in write(results, options.out):
        messages.print(f"wrote {path}", markup=False)
    if options.json:
        sys.stdout.write((options.out / JSON_FILE).read_text("utf-8"))
    else:
        show(results, Console(width=max(WIDTH, Console().width)))
    return 0


def _measure(options: argparse.Namespace, messages: Console) -> Comparison:
    machine = this_machine()
    runs = all_runs(options.scenario, options.hours, options.seed)
    workers = max(1, min(options.workers, len(runs)))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in (JSON_FILE, HTML_FILE):  # a comparison that breaks leaves no older one
        (options.out / name).unlink(missing_ok=True)
    head, changed = commit()
    began_s = perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    with Progress(*columns, TimeRemainingColumn(), console=messages) as bar:
        tasks = [bar.add_task(run.name, total=None) for run in runs]

        def steps(index: int, done: int, total: int) -> None:
            bar.update(tasks[index], completed=done, total=total)
            if done == total and not messages.is_terminal:
                messages.print(f"{runs[index].name}: {total} cycles replayed")

        found = compare(runs, options.out, workers, steps)
    return Comparison(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=False,
        seed=options.seed,
        scenario=options.scenario.stem,
        hours=options.hours,
        workers=workers,
        seconds=round(perf_counter() - began_s),
        runs=tuple(found),
    )


if __name__ == "__main__":
    sys.exit(main())
