"""`walras audit`: recompute charges, ledger, balances and invoices from the log, and compare."""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from walras.archive.progress import progress_bar
from walras.audit import AuditError, AuditLog, AuditRules, audit
from walras.audit.display import report_lines, report_tables
from walras.audit.log_directory import DirectoryLog, save_log
from walras.audit_broker import broker_log
from walras.instance_arguments import say

DEFAULTS: Final = AuditRules()
SETTINGS: Final = (
    ("price-grace", DEFAULTS.price_grace_ms),
    ("look-back", DEFAULTS.look_back_ms),
    ("future-tolerance", DEFAULTS.future_tolerance_ms),
    ("max-price-age", DEFAULTS.max_price_age_ms),
    ("price-wait", DEFAULTS.price_wait_ms),
)
"""Settings of billing, with their defaults."""
EXIT_CLEAN: Final = 0
EXIT_DIFFERENCES: Final = 1
EXIT_CANNOT_RUN: Final = 2

DESCRIPTION: Final = """\
Recompute every charge line, ledger entry, balance and invoice from the topics usage, prices,
accounts and drain.status, by rules that are written down a second time, and compare with what is
on the log. Reads committed records up to the last barrier that all topics show; what lies behind
it, or is charged and not posted yet, is in flight and shown as such.

A log can be kept as files (--save DIR) and audited without a broker (--log DIR)."""

EPILOG: Final = """\
exit codes: 0 clean; 1 something differs: what, where, and what it should be; 2 cannot run: no
broker, no such log, a topic or a barrier is missing."""


def add_audit_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``audit`` command."""
    parser = subparsers.add_parser(
        "audit",
        help="recompute all money from the log and compare",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument("--log", type=Path, metavar="DIR", help="a log that --save wrote")
    parser.add_argument("--save", type=Path, metavar="DIR", help="keep the broker's log first")
    for name, default in SETTINGS:
        variable = f"WALRAS_BILLING_{name.replace('-', '_').upper()}_MS"
        parser.add_argument(
            f"--{name}",
            dest=f"{name.replace('-', '_')}_ms",
            type=_duration,
            # As text: what the environment says is judged as what a user says.
            default=os.environ.get(variable) or (None if default is None else str(default)),
            metavar="MS",
            help=f"what billing was set to (default: {variable}, else {_shown(default)})",
        )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_audit)


def run_audit(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    rules = AuditRules(
        arguments.price_grace_ms,
        arguments.look_back_ms,
        arguments.future_tolerance_ms,
        arguments.max_price_age_ms,
        arguments.price_wait_ms,
    )
    try:
        with _log(arguments) as log, progress_bar("auditing") as progress:
            report = audit(log, rules, progress)
    except AuditError as error:
        say(f"walras audit: {error}")
        return EXIT_CANNOT_RUN
    if arguments.json:
        print(json.dumps(report.document(), ensure_ascii=False))
    else:
        console = Console(highlight=False)
        for table in report_tables(report):
            console.print(table)
        print("\n".join(report_lines(report)))
    return EXIT_CLEAN if report.is_clean else EXIT_DIFFERENCES


@contextmanager
def _log(arguments: argparse.Namespace) -> Iterator[AuditLog]:
    """Open what is to be audited; keep it first where that is asked for."""
    if arguments.log is not None:
        if arguments.save is not None:
            raise AuditError("--log names files; there is nothing to keep with --save")
        yield DirectoryLog(arguments.log)
        return
    if arguments.bootstrap is None:
        raise AuditError("name a broker with --bootstrap, or files with --log")
    with broker_log(arguments.bootstrap) as log:
        if arguments.save is None:
            yield log
            return
        with progress_bar("keeping the log") as progress:
            save_log(log, arguments.save, progress)
        yield DirectoryLog(arguments.save)


def _duration(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of ms")
    return int(text)


def _shown(default: int | None) -> str:
    return "no limit" if default is None else str(default)
