"""``walras demo``: replay a trace through the whole market and report on it."""

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka.errors import KafkaError

from walras.demo.driver import ReplayStalledError
from walras.demo.fresh import LogNotEmptyError
from walras.demo.run import DemoOptions, run_demo
from walras.processes import ProcessError
from walras.report.records import ReportError
from walras.scenario import ScenarioError
from walras_launcher import LauncherError
from walras_runtime.errors import BrokerUnavailableError, TopicMismatchError

BROKEN = (
    *(LauncherError, ProcessError, ReplayStalledError, ReportError),
    *(TopicMismatchError, BrokerUnavailableError, KafkaError),
)
SCENARIO = Path("scenarios/itp_week.toml")
CHECKOUT = Path(__file__).resolve().parents[3]


def default_scenario(checkout: Path = CHECKOUT) -> Path:
    """Return the scenario of the checkout that this package lies in, wherever one stands.

    An installed copy has no checkout around it: then it is looked for from the working directory.
    """
    inside = checkout / SCENARIO
    return inside if inside.is_file() else SCENARIO


def add_demo_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``demo`` command."""
    parser = subparsers.add_parser(
        "demo",
        help="replay a real cluster trace through the market",
        description="Replays a cluster trace through the real services on a real Kafka and Redis, "
        "in cycles of 60 s of market time, and writes report.json and report.html.",
    )
    parser.add_argument("--hours", type=int, default=24, help="market time to replay (1-168)")
    parser.add_argument("--seed", type=int, default=1, help="draws what the scenario invents")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the report")
    parser.add_argument(
        "--scenario",
        type=Path,
        default=default_scenario(),
        help=f"scenario file ({SCENARIO} of the checkout)",
    )
    parser.add_argument("--no-board", action="store_true", help="plain lines, no live board")
    parser.add_argument("--json", action="store_true", help="print the report on stdout at the end")
    parser.set_defaults(run=run_demo_command)


def run_demo_command(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 the report is written, 1 the run broke, 2 it cannot be run as asked."""
    # Also where a shell started this in the background, with the signal ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if not arguments.scenario.is_file():
        say(f"walras demo: there is no file {arguments.scenario}; name a scenario with --scenario")
        return 2
    try:
        report = run_demo(
            DemoOptions(
                scenario=arguments.scenario,
                out=arguments.out,
                hours=arguments.hours,
                seed=arguments.seed,
                board=not arguments.no_board,
            ),
            say,
        )
    except (ScenarioError, LogNotEmptyError) as error:
        say(f"walras demo: {error}")
        return 2
    except BROKEN as error:
        say(f"walras demo: {error}\nlogs: {arguments.out / 'logs'}")
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        return 130
    if arguments.json:
        print(json.dumps(report))
    else:
        for line in summary(report):
            say(line)
    return 0


def summary(report: Mapping[str, Any]) -> list[str]:
    """Return what one wants to know of a run before opening its report."""
    jobs, latency = report["jobs"], report["latency"]["tick_to_commit_ms"]
    wait = jobs["wait_to_first_start_ms"]["p50"]
    seconds, cycles = report["run"]["replay_seconds"], report["cycles"]["count"]
    waited = "-" if wait is None else f"{wait / 60_000:.1f} min"
    done = f"{jobs['finished']} of {jobs['submitted']} jobs finished"
    occupancy = f"{report['occupancy']['occupancy_ppm'] / 10_000:.1f} %"
    commit = f"p50 {latency['p50']} ms, p99 {latency['p99']} ms"
    return [
        f"{report['hours']} h of market time in {seconds} s: {cycles} cycles, {done}",
        f"occupancy {occupancy}, median wait {waited}, tick to committed quotas {commit}",
        *(f"digest of {topic}: {digest}" for topic, digest in report["digests"].items()),
    ]
