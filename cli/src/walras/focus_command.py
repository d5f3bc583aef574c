"""``walras focus``: charges and invoices in the form of FOCUS 1.2."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from walras.billing_log import (
    BillingLogError,
    add_source_arguments,
    add_window_arguments,
    source_of,
    window_of,
)
from walras.billing_log.amounts import credits_text, exact_credits_text
from walras.billing_log.arguments import FILE_FORM
from walras.focus.exporting import Exported, export
from walras.focus.writing import FocusFiles
from walras.instance_arguments import OK, refuse
from walras.invoices.latest import Selection

DESCRIPTION: Final = """\
Export charges, corrections and credits by invoice in the form of FOCUS 1.2, the FinOps cost and
usage format, as Parquet and CSV (DIR/focus-1.2.parquet, DIR/focus-1.2.csv). --from and --to select
the invoices whose period starts there; voided ones have no rows, their lines stand on others.

The billed costs of an invoice sum up to what it asks for, exactly. Pools are billing accounts,
teams sub accounts, jobs resources, markets SKUs. The list price is the reference price."""

EPILOG: Final = f"""\
The columns and their rules: docs/billing.md. Reads invoices, charges with their barriers, prices.

{FILE_FORM}

Here barriers count: where an invoice was issued, charges need theirs, partition by partition; what
lies behind the one by which it was due is a correction.

exit codes: 0 exported; 2 bad input: nothing to read from, charges that are not what the invoices
sum up (named), a folder that cannot be written. Then the files are as they were.

example:  walras focus --from 2021-03-01 --to 2021-04-01 --pool research --out focus"""


def add_focus_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``focus`` command."""
    parser = subparsers.add_parser(
        "focus",
        help="charges and invoices as FOCUS 1.2, in Parquet and CSV",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_window_arguments(parser)
    parser.add_argument("--pool", metavar="ID", help="only of this pool")
    parser.add_argument("--team", metavar="ID", help="only of this team")
    parser.add_argument(
        "--out", type=Path, default=Path("focus"), metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument(
        "--provider",
        default="Walras",
        metavar="NAME",
        help="who provides, publishes and issues (default: %(default)s)",
    )
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_focus)


def run_focus(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    selection = Selection(pool=arguments.pool, team=arguments.team)
    files = FocusFiles(arguments.out)
    try:
        source, window = source_of(arguments), window_of(arguments)
        with files:
            exported = export(source, window, selection, arguments.provider, files.write)
    except BillingLogError as error:
        return refuse(f"walras focus: {error}")
    except OSError as error:
        return refuse(f"walras focus: {error.filename or arguments.out}: {error.strerror}")
    if arguments.json:
        print(json.dumps(_document(exported, files.paths)))
    else:
        print("\n".join(_lines(exported, files.paths)))
    return OK


def _document(exported: Exported, paths: Sequence[Path]) -> dict[str, Any]:
    return {
        "files": [str(path) for path in paths],
        "invoices": exported.invoices,
        "rows": exported.rows,
        "payable_micro": exported.payable_micro,
        "waiting_lines": exported.waiting,
        "waiting_numerator": str(exported.waiting_numerator),
    }


def _lines(exported: Exported, paths: Sequence[Path]) -> list[str]:
    payable = credits_text(exported.payable_micro)
    lines = [f"wrote {path}" for path in paths]
    lines.append(f"{exported.rows} rows of {exported.invoices} invoices, {payable} credits to pay")
    if exported.waiting:
        waiting = exact_credits_text(exported.waiting_numerator)
        lines.append(f"left out: {exported.waiting} lines ({waiting} credits) on no invoice yet")
    return lines
