"""The ``walras`` command."""

import argparse
import sys
from importlib import import_module

COMMANDS = (
    ("walras.demo_command", "add_demo_parser"),
    ("walras.clear_command", "add_clear_parser"),
    ("walras.clear_command", "add_verify_parser"),
    ("walras.quota_command", "add_quota_parser"),
    ("walras.topics_command", "add_topics_parser"),
    ("walras.doctor_command", "add_doctor_parser"),
)


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="walras", description="An open market for accelerator quota."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module, add in COMMANDS:
        getattr(import_module(module), add)(subparsers)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
