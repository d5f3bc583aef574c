"""``walras nodes``: which nodes there are, who holds their devices, how their emptying goes."""

import argparse
import json
import sys
from typing import Final

from rich.console import Console

from walras.instance_arguments import OK
from walras.jobs_log.arguments import (
    JSON_FAULT,
    add_broker_arguments,
    broker_of,
    checked_id,
    guarded,
)
from walras.jobs_log.kafka_log import open_log
from walras.nodes.document import nodes_document
from walras.nodes.reading import TOPICS, read_nodes
from walras.nodes.tables import as_of, nodes_table, page_lines

PLAIN_COLUMNS: Final = 200
"""Width of tables that no terminal shows."""

DESCRIPTION: Final = """\
The nodes: type, cell, domain, owner; state, and whether one is lost; how many devices are free,
held by leases, or withheld; how long its agent has been silent, in market time from barrier to
barrier; how far its emptying is, with deadline and blockers. With NODE: all that is known of one,
its leases too."""

EPILOG: Final = f"""\
Each device counts once: one that a lease holds is held, even if it must not be used any more; of
the others those are withheld that are unhealthy, or whose node is not active, or lost. Devices that
are kept for a job which waits for more count as free.

With --json: {{"barrier", "market_time_ms", "nodes": [{{"node", "type", "cell", "domain", "state",
"lost", "free", "held", "withheld", "silent_ms", "drain", "leases", "sessions", …}}]}}; what is not
known is null.
{JSON_FAULT}

exit codes: 0 shown, be it none; 2 unknown node, nothing to read from.

example:  walras nodes rack3-07"""


def add_nodes_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``nodes`` command."""
    parser = subparsers.add_parser(
        "nodes",
        help="which nodes there are, who holds their devices, how their emptying goes",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("node", metavar="NODE", nargs="?", help="all about this node")
    parser.add_argument("--gone", action="store_true", help="those that are gone, too")
    add_broker_arguments(parser)
    parser.set_defaults(run=run_nodes)


def run_nodes(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("nodes", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    node = None if arguments.node is None else checked_id(arguments.node, "node")
    with open_log(broker_of(arguments), TOPICS) as log:
        nodes = read_nodes(log, node, gone=arguments.gone)
    if arguments.json:
        print(json.dumps(nodes_document(nodes)))
    elif node is not None:
        print("\n".join(page_lines(nodes.nodes[0], nodes)))
    elif not nodes.nodes:
        print(f"no node is there; {as_of(nodes)}")
    else:
        Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS).print(nodes_table(nodes))
    return OK
