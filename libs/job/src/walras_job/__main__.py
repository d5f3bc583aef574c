"""``python -m walras_job run -- PROGRAM``: the launcher, where the ``walras`` command is not."""

import argparse
import sys
from collections.abc import Sequence

from walras_job.launch.arguments import add_run_parser, run


def main(words: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="python -m walras_job", description="What a job needs to leave in time."
    )
    commands = parser.add_subparsers(dest="command_name", required=True, metavar="COMMAND")
    add_run_parser(commands)
    sys.exit(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
