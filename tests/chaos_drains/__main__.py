"""`make chaos-drains`: drains on real processes and a real Kafka while everything is killed."""

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiokafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from tests.chaos.waiting import ChaosError
from tests.chaos_drains.plan import plan_of
from tests.chaos_drains.run import SHOWN_FAULTS, Report, run_drains
from walras.processes import ProcessError
from walras_launcher import LauncherError, start_kafka

DRAINS = 200
KILLS = 40
SHOWN_LETTERS = 400
BROKER_WITHIN_S = 180.0
"""On a machine that has other work, its start takes longer than usual."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a seed; return the exit code: 0 clean, 1 faults, 2 it could not run."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = options.logs / f"seed-{options.seed}"

    def say(line: str) -> None:
        messages.print(f"chaos-drains: {line}", markup=False)

    try:
        plan = plan_of(options.seed, options.drains, options.kills)
        say(f"seed {plan.seed}, at least {plan.drains} drains, {plan.kills()} kills")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with start_kafka(ready_timeout_s=BROKER_WITHIN_S) as broker:
            report = asyncio.run(run_drains(plan, broker, folder, say))
    except (ChaosError, ProcessError, LauncherError, KafkaError, ValueError) as error:
        say(f"{getattr(error, 'code', 'cannot_run')}: {error}")
        say(f"seed {options.seed}; logs of the processes: {folder}")
        return 2
    if options.json:
        sys.stdout.write(json.dumps(report.document()) + "\n")
    else:
        _show(report, Console())
    return 0 if report.clean else 1


def _show(report: Report, console: Console) -> None:
    table = Table(title=f"chaos-drains, seed {report.seed}", show_header=False)
    for name, figure in report.verdict.figures.items():
        table.add_row(name, str(figure))
    groups: Mapping[str, Mapping[str, int]] = {
        "processes killed": report.kills,
        "disturbances": report.disturbances,
        "asked to leave": report.verdict.reasons,
        "drains ended": report.verdict.ends,
        "parts freed": report.verdict.outcomes,
        "faults": {name: len(found) for name, found in report.verdict.faults.items()},
    }
    for title, counts in groups.items():
        table.add_row(title, str(sum(counts.values())))
        for name, count in counts.items():
            table.add_row(f"  {name.replace('_', ' ')}", str(count))
    table.add_row("took, s", str(report.disturbed_s))
    console.print(table)
    faults = report.verdict.lines()
    for fault in faults[:SHOWN_FAULTS]:
        console.print(f"  {fault[:SHOWN_LETTERS]}", markup=False, soft_wrap=True)
    if len(faults) > SHOWN_FAULTS:
        console.print(f"  and {len(faults) - SHOWN_FAULTS} more")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos-drains", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="all of the plan follows from it")
    parser.add_argument("--drains", type=int, default=DRAINS, help="at least so many are begun")
    parser.add_argument("--kills", type=int, default=KILLS, help="of processes")
    parser.add_argument(
        "--logs", type=Path, default=Path("out/chaos-drains"), help="folder for what processes keep"
    )
    parser.add_argument("--json", action="store_true", help="the report as one line of JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
