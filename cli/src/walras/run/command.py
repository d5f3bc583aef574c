"""``walras run -- PROGRAM``: a program that handles no signals, as a job that can be drained."""

import argparse

from walras_job.launch.arguments import add_run_parser as add_launcher_parser
from walras_job.launch.arguments import run


def add_run_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of ``walras``."""
    add_launcher_parser(subparsers).set_defaults(run=run)
