"""``walras run -- PROGRAM``: a program that handles no signals, as a job that can be drained."""

import argparse

from walras_job.launch.arguments import DESCRIPTION, EPILOG, SUMMARY, add_run_arguments, run


def add_run_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of ``walras``."""
    parser = subparsers.add_parser(
        "run",
        help=SUMMARY,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_arguments(parser)
    parser.set_defaults(run=run)
