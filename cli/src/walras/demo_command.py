"""``walras demo``: replay a trace through the whole market and report on it."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka.errors import KafkaError

from walras.demo.driver import ReplayStalledError
from walras.demo.fresh import LogNotEmptyError
from walras.demo.policies import Policies
from walras.demo.run import DemoOptions, run_demo
from walras.interrupts import take_interrupts
from walras.processes import ProcessError
from walras.report import words
from walras.report.records import ReportError
from walras.scenario import ScenarioError
from walras_contracts.accounts import Rounding
from walras_contracts.quantities import PPM
from walras_launcher import LauncherError
from walras_runtime.errors import BrokerUnavailableError, TopicMismatchError

BROKEN = (
    *(LauncherError, ProcessError, ReplayStalledError, ReportError),
    *(TopicMismatchError, BrokerUnavailableError, KafkaError),
)
SCENARIO = Path("scenarios/itp_week.toml")
GAP_PPM_MAX = 1000 * PPM
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
    parser.add_argument(
        "--rounding",
        choices=[rounding.value for rounding in Rounding],
        help="how whole jobs use divisible quota, in every market (what the scenario says)",
    )
    parser.add_argument(
        "--retention-gap-ppm",
        type=_gap_ppm,
        metavar="PPM",
        help="by how much a running job's limit counts as raised within its minimum run time; "
        "0: no retention (what the scenario says)",
    )
    parser.add_argument("--no-board", action="store_true", help="plain lines, no live board")
    parser.add_argument("--json", action="store_true", help="print the report on stdout at the end")
    parser.set_defaults(run=run_demo_command)


def _gap_ppm(text: str) -> int:
    gap_ppm = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= gap_ppm <= GAP_PPM_MAX:
        raise argparse.ArgumentTypeError(f"must lie in 0 … {GAP_PPM_MAX}, is {text!r}")
    return gap_ppm


def run_demo_command(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 it is reported, 1 it broke, 2 it cannot be run as asked, 130 interrupted."""
    take_interrupts()

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
                policies=Policies(
                    Rounding(arguments.rounding) if arguments.rounding else None,
                    arguments.retention_gap_ppm,
                ),
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
        *_placement_summary(report),
        *(f"digest of {topic}: {digest}" for topic, digest in report["digests"].items()),
    ]


def _placement_summary(report: Mapping[str, Any]) -> list[str]:
    total, drains = report["placement"]["total"], report["drains"]
    preempted = report["placement"]["leases"]["preempted"]
    repeated = words.accelerator_seconds(preempted["repeated_macc_ms"])
    wasted = words.percent(total["unspent_share_ppm"])
    gang = words.duration(total["gang_wait_most_ms"])
    took, allowed = drains["time_to_free_ms"], drains["time_allowed_ms"]
    freed = drains["ended"].get("freed", 0)
    placed = (
        f"placement: {report['placement']['waits']['starts']} starts, {preempted['leases']} "
        f"preemptions, {repeated} accelerator-seconds of theirs repeated, {wasted} of the "
        f"bought quota unspent, longest wait of a gang with quota {gang}"
    )
    drained = (
        f"drains: {drains['begun']} begun, {freed} freed in p50 {words.seconds(took['p50'])}, "
        f"p99 {words.seconds(took['p99'])} of {words.seconds(allowed['p50'])}, "
        f"{drains['caps']['sessions_held_up']} held up by the guardrail"
    )
    return [placed, drained]
