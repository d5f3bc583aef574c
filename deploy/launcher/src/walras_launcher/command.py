"""The command line of the launcher."""

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from walras_launcher.doctor import Finding, State, inspect_machine, ready
from walras_launcher.errors import LauncherError
from walras_launcher.kafka import DEFAULT_HEAP, prepare_kafka, start_kafka
from walras_launcher.ladder import open_broker, open_redis
from walras_launcher.redis import start_redis
from walras_launcher.running import Broker, Redis, Server

_STYLES = {State.FOUND: "green", State.MISSING: "yellow", State.UNUSABLE: "red"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root = argparse.ArgumentParser(
        prog="python -m walras_launcher",
        description="Real Apache Kafka and Redis on loopback, until Ctrl-C.",
    )
    commands = root.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare", help="do the once-only work: jars, template, class archive")
    doctor = commands.add_parser("doctor", help="say what is here, what is missing")
    up = commands.add_parser("up", help="run Kafka and Redis in the foreground")
    kafka = commands.add_parser("kafka", help="run Kafka in the foreground")
    kafka.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any)")
    kafka.add_argument("--directory", type=Path, help="keep the data here (default: temporary)")
    kafka.add_argument("--heap", default=DEFAULT_HEAP, help="largest Java heap (%(default)s)")
    kafka.add_argument("--jit", choices=("c1", "full"), default="c1", help="(%(default)s)")
    redis = commands.add_parser("redis", help="run Redis in the foreground")
    redis.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any)")
    for command in (doctor, up, kafka, redis):
        command.add_argument("--json", action="store_true", help="print one line of JSON")
    return root


def main(arguments: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 it could not be.

    Parameters
    ----------
    arguments
        The command line without the program's name.
    out
        Where results go; standard output if left out. Progress goes to standard error.
    """
    args = parser().parse_args(arguments)
    stream = out or sys.stdout
    try:
        return _run(args, stream)
    except LauncherError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _run(args: argparse.Namespace, out: TextIO) -> int:
    match args.command:
        case "prepare":
            prepared = prepare_kafka()
            state = "prepared" if prepared.steps else "already prepared"
            out.write(f"Apache Kafka is {state} in {prepared.home}\n")
            return 0
        case "doctor":
            return show(inspect_machine(), out, as_json=args.json)
        case "kafka":
            broker = start_kafka(
                directory=args.directory, heap=args.heap, jit=args.jit, port=args.port
            )
            return _foreground([broker], {"bootstrap": broker.bootstrap}, out, args.json)
        case "redis":
            server = start_redis(port=args.port)
            return _foreground([server], {"redis": server.url}, out, args.json)
        case _:
            return _up(out, args.json)


def _up(out: TextIO, as_json: bool) -> int:
    with contextlib.ExitStack() as stack:
        broker: Broker = stack.enter_context(open_broker())
        redis: Redis = stack.enter_context(open_redis())
        addresses = {"bootstrap": broker.bootstrap, "redis": redis.url}
        return _foreground([broker, redis], addresses, out, as_json)


def _foreground(
    servers: Sequence[Server], addresses: dict[str, str], out: TextIO, as_json: bool
) -> int:
    """Say where the servers are, and keep them until SIGINT or SIGTERM."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        if as_json:
            out.write(json.dumps(addresses) + "\n")
        else:
            for server, (name, address) in zip(servers, addresses.items(), strict=True):
                out.write(f"{name:<10} {address}   {server.describe()}\n")
            out.write("Ctrl-C stops.\n")
        out.flush()
        # A wait without a timeout would not see the signal on every platform.
        while not over.wait(0.5):
            for server in servers:
                if getattr(server, "running", True) is False:
                    raise LauncherError(
                        "ended", f"{server.describe()} ended by itself.", "Look at its log."
                    )
    return 0


def show(findings: list[Finding], out: TextIO, *, as_json: bool) -> int:
    """Write the findings as a table or as JSON, and return 0 if the demo could run, else 1.

    Parameters
    ----------
    findings
        What :func:`walras_launcher.doctor.inspect_machine` returned.
    out
        Where they go.
    as_json
        One JSON document in place of the table.
    """
    fine = ready(findings)
    if as_json:
        document = {"ready": fine, "findings": [finding.as_json() for finding in findings]}
        out.write(json.dumps(document, indent=2) + "\n")
        return 0 if fine else 1
    console = Console(file=out)
    table = Table("what", "state", "needed", "detail")
    for finding in findings:
        optional = not finding.needed and finding.state is not State.FOUND
        style = "dim" if optional else _STYLES[finding.state]
        needed = "yes" if finding.needed else ""
        row = (Text(finding.code), Text(finding.state.value, style=style), Text(needed))
        table.add_row(*row, Text(finding.detail))
    console.print(table)
    lacking = [item for item in findings if item.needed and item.state is not State.FOUND]
    for finding in lacking:
        console.print(f"{finding.code}: {finding.detail} {finding.remedy}", markup=False)
    console.print("All that `make demo` needs is here." if fine else "`make demo` cannot run yet.")
    return 0 if fine else 1
