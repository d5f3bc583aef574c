"""The ``walras`` command."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = (
    ("walras.demo_command", "add_demo_parser"),
    ("walras.demo_nodes_command", "add_demo_nodes_parser"),
    ("walras.clear_command", "add_clear_parser"),
    ("walras.clear_command", "add_verify_parser"),
    ("walras.explain_command", "add_explain_parser"),
    ("walras.simulate_command", "add_simulate_parser"),
    ("walras.archive_command", "add_archive_parser"),
    ("walras.replay_command", "add_replay_parser"),
    ("walras.rate_command", "add_rate_parser"),
    ("walras.prices_command", "add_prices_parser"),
    ("walras.bill_command", "add_bill_parser"),
    ("walras.invoices_command", "add_invoices_parser"),
    ("walras.invoice_command", "add_invoice_parser"),
    ("walras.focus_command", "add_focus_parser"),
    ("walras.audit_command", "add_audit_parser"),
    ("walras.jobs_command", "add_jobs_parser"),
    ("walras.nodes_command", "add_nodes_parser"),
    ("walras.submit_command", "add_submit_parser"),
    ("walras.limit_command", "add_limit_parser"),
    ("walras.cancel_command", "add_cancel_parser"),
    ("walras.drain_command", "add_drain_parser"),
    ("walras.quota_command", "add_quota_parser"),
    ("walras.run.command", "add_run_parser"),
    ("walras.topics_command", "add_topics_parser"),
    ("walras.doctor_command", "add_doctor_parser"),
)
EXIT_NOBODY_READS = 141
"""As of a program that SIGPIPE ended."""


def command_names() -> list[str]:
    """Return the commands in the order of the help."""
    names = (add.removeprefix("add_").removesuffix("_parser") for _, add in COMMANDS)
    return [name.replace("_", "-") for name in names]


class _CommandHelp(argparse.HelpFormatter):
    """Leaves room for the longest command, so that each stands on one line with what it does.

    The formatter itself forgets how far commands are indented.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 2 * self._indent_increment + max(map(len, command_names()))


def build_parser(named: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; each command's arguments carry what runs it as ``run``.

    Parameters
    ----------
    named
        The command that will be parsed: the others need seconds to import, and are left out. Any
        other text, or None, gives all of them.
    """
    parser = argparse.ArgumentParser(
        prog="walras",
        description="An open market for accelerator quota.",
        formatter_class=_CommandHelp,
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    names = command_names()
    for name, (module, add) in zip(names, COMMANDS, strict=True):
        if named not in names or name == named:
            getattr(import_module(module), add)(subparsers)
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name."""
    # The client's account of each attempt to connect; the command says once what counts.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    words = sys.argv[1:] if words is None else words
    arguments = build_parser(words[0] if words else None).parse_args(words)
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has what it wanted (`| head`). What is left in the buffer must
        # not be written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_NOBODY_READS
    sys.exit(code)


if __name__ == "__main__":
    main()
