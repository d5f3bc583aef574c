"""`make chaos-billing`: billing on a real Kafka while everything around it breaks."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiokafka.errors import KafkaError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.chaos.plan import Plan, plan_of
from tests.chaos.run import SHOWN_FAULTS, Report, run_chaos
from tests.chaos.waiting import ChaosError
from walras.processes import ProcessError
from walras_launcher import LauncherError, start_kafka, start_redis

EVENTS = 200_000
DISTURBANCES = 48
SHOWN_LETTERS = 400


def main(argv: Sequence[str] | None = None) -> int:
    """Run a seed; return the exit code: 0 clean, 1 differences, 2 it could not run."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        plan = plan_of(options.seed, options.events, options.disturbances)
        report = _run(plan, options.logs, messages)
    except (ChaosError, ProcessError, LauncherError, KafkaError, ValueError) as error:
        code = getattr(error, "code", "cannot_run")
        messages.print(f"chaos: {code}: {error}", markup=False)
        messages.print(f"chaos: seed {options.seed}; logs of the workers: {options.logs}")
        return 2
    if options.json:
        sys.stdout.write(json.dumps(report.document()) + "\n")
    else:
        _show(report, Console())
    return 0 if report.clean else 1


def _run(plan: Plan, logs: Path, messages: Console) -> Report:
    columns = (TextColumn("chaos"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    folder = logs / f"seed-{plan.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    with Progress(*columns, console=messages, disable=not messages.is_terminal) as progress:
        task = progress.add_task("steps", total=plan.all_steps)
        over = 0

        def say(line: str) -> None:
            nonlocal over
            over += line.startswith("step ")
            where = f"{over} of {len(plan.of_processes())}: " if line.startswith("step ") else ""
            messages.print(f"chaos: {where}{line}", markup=False)

        say(f"seed {plan.seed}, {plan.events} usage records, {plan.all_steps} steps")
        for each in plan.of_the_log():
            say(f"in the input at {each.describe()}")
        with start_kafka(jit="full", heap="1g") as broker, start_redis() as redis:
            return asyncio.run(
                run_chaos(
                    plan,
                    broker,
                    redis,
                    folder,
                    say=say,
                    progress=lambda done, total: progress.update(task, completed=done, total=total),
                )
            )


def _show(report: Report, console: Console) -> None:
    table = Table(title=f"chaos-billing, seed {report.seed}", show_header=False)
    document = report.document()
    done = document.pop("disturbances")
    faults = document.pop("faults")
    for name, value in document.items():
        table.add_row(name.replace("_", " "), str(value))
    table.add_row("disturbances", str(sum(done.values())))
    for kind, count in done.items():
        table.add_row(f"  {kind.replace('_', ' ')}", str(count))
    console.print(table)
    for fault in faults:
        console.print(f"  {fault[:SHOWN_LETTERS]}", markup=False, soft_wrap=True)
    if len(report.faults) > SHOWN_FAULTS:
        console.print(f"  and {len(report.faults) - SHOWN_FAULTS} more")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos-billing", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="all of the plan follows from it")
    parser.add_argument("--events", type=int, default=EVENTS, help="usage records")
    parser.add_argument(
        "--disturbances", type=int, default=DISTURBANCES, help="of processes and of the input"
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("out/chaos-billing"), help="folder for workers' logs"
    )
    parser.add_argument("--json", action="store_true", help="the report as one line of JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
