"""``walras demo-nodes``: real agents and processes, a price spike, a drain, work that goes on."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError
from rich.console import Console

from walras.demo.fresh import LogNotEmptyError
from walras.demo_nodes.folders import FolderInUseError
from walras.demo_nodes.narrating import facts_table
from walras.demo_nodes.run import (
    NodesDemoOptions,
    NodesDemoResult,
    TrainingAgainError,
    run_nodes_demo,
)
from walras.demo_nodes.story import StoryBrokenError
from walras.demo_nodes.watching import StoryStalledError
from walras.interrupts import take_interrupts
from walras.jobs_log.errors import JobsLogError
from walras.processes import ProcessError
from walras.scenario import ScenarioError
from walras_launcher import LauncherError
from walras_runtime.errors import BrokerUnavailableError, TopicMismatchError

SCENARIO: Final = Path("scenarios/price_spike.toml")
CHECKOUT: Final = Path(__file__).resolve().parents[3]
BROKEN: Final = (
    *(LauncherError, ProcessError, StoryStalledError, StoryBrokenError, TrainingAgainError),
    *(TopicMismatchError, BrokerUnavailableError, KafkaError),
)
UNUSABLE: Final = (ScenarioError, FolderInUseError, LogNotEmptyError)
DESCRIPTION: Final = """\
Starts a real Kafka, the services of the market and three node agents with eight simulated devices
each. A job trains at a low limit; others bid the price above it; the job is warned, saves, leaves,
and goes on on another node where it was. Then the facts are checked: steps, prices, drain, devices,
bill. Takes about a minute."""
EPILOG: Final = """\
In the folder afterwards: facts.json, timeline.svg (who held which device when, and the price), the
job files, logs, checkpoints and the state of the nodes; the next run empties it.

exit codes: 0 all facts hold; 1 one does not, or the run broke; 2 it cannot be run as asked;
130 interrupted (nothing is left running)."""


def add_demo_nodes_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Add the ``demo-nodes`` command."""
    parser = subparsers.add_parser(
        "demo-nodes",
        help="play a price spike with real agents, processes and checkpoints",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inside = CHECKOUT / SCENARIO
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo-nodes"), help="folder of the run"
    )
    parser.add_argument(
        "--scenario",
        type=Path,
        default=inside if inside.is_file() else SCENARIO,
        help=f"scenario file ({SCENARIO} of the checkout)",
    )
    parser.add_argument("--json", action="store_true", help="print the facts on stdout at the end")
    parser.add_argument(
        "--keep", action="store_true", help="let all run on at the end, until Ctrl-C"
    )
    parser.set_defaults(run=run_demo_nodes_command)


def run_demo_nodes_command(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit codes are in its help."""
    if (refusal := _refusal(arguments.scenario)) is not None:
        print(f"walras demo-nodes: {refusal}", file=sys.stderr)
        return 2
    take_interrupts()
    console = Console(stderr=True)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def told(result: NodesDemoResult) -> None:
        console.print(facts_table(result.findings))
        for path in result.files:
            say(f"wrote {path}")
        if arguments.json:
            print(json.dumps(result.document), flush=True)

    options = NodesDemoOptions(arguments.scenario, arguments.out, keep=arguments.keep)
    found: list[NodesDemoResult] = []
    try:
        found.append(run_nodes_demo(options, console, told))
    except UNUSABLE as error:
        say(f"walras demo-nodes: {error}")
        return 2
    except JobsLogError as error:
        say(f"walras demo-nodes: {error.line()}\nlogs: {arguments.out / 'logs'}")
        return 1
    except BROKEN as error:
        say(f"walras demo-nodes: {error}\nlogs: {arguments.out / 'logs'}")
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        return 130
    faults = [f"{each.name}: {fault}" for each in found[0].findings for fault in each.faults]
    for fault in faults:
        say(f"walras demo-nodes: {fault}")
    return 1 if faults else 0


def _refusal(scenario: Path) -> str | None:
    """Return why it cannot be run here, if it cannot."""
    if sys.platform != "linux":
        return f"node agents run on Linux alone, and this is {sys.platform}; use a Linux machine"
    if not scenario.is_file():
        return f"there is no file {scenario}; name a scenario with --scenario"
    return None
