"""The arguments of the launcher, for ``python -m walras_job run`` and ``walras run`` alike."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from walras_job.errors import ControlDirectoryMissingError, JobError, LaunchError
from walras_job.launch.launcher import Launcher, take_signals
from walras_job.launch.saving import CheckpointFile, NoSaving, Saving, Stateless
from walras_job.launch.starting import Starter
from walras_job.launch.warning_command import WarningCommand
from walras_job.part import control_directory_of

_SUMMARY: Final = "run a program that handles no signals as a job that can be drained"
_DESCRIPTION: Final = """\
Run a program that knows nothing of Walras, and speak to the node agent for it.

The launcher takes the agent's SIGUSR1, which would end most programs, and looks at the warning in
the control directory (WALRAS_CONTROL_DIR; without it nobody warns, and the program just runs).
Everything counts as saved, and the devices can be taken before the deadline,
  with --warning-command   when that command has ended with 0,
  with --checkpoint-file   when another file was renamed over that path since the warning,
  with both                when both are true,
  with --stateless         at once.
Without any of them nothing is said, and the program runs until the agent ends it.

The warning command is run by /bin/sh and killed at the deadline, with all that it has started. It
has WALRAS_CHILD_PID (the program), WALRAS_DEADLINE_MS (since the epoch), WALRAS_REASON and
WALRAS_SESSION in its environment:
  walras run --warning-command 'kill -USR2 $WALRAS_CHILD_PID' --checkpoint-file run/last.pt \\
    -- python train.py

SIGTERM and SIGINT that reach the launcher alone are forwarded; those to the whole process group
the program gets anyway, once. If the launcher is killed, the program gets SIGTERM (Linux)."""
_EPILOG: Final = """\
exit codes: that of the program; 128 + n where signal n ended it; 127 there is no such program,
126 it cannot be run; 2 wrong arguments or environment."""

EXIT_WRONG: Final = 2
EXIT_NOT_RUNNABLE: Final = 126
EXIT_NOT_FOUND: Final = 127


def add_run_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the launcher as the command ``run`` of a program; return its parser."""
    parser = commands.add_parser(
        "run",
        help=_SUMMARY,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # argparse has no word for what comes after "--".
    parser.usage = (
        f"{parser.prog} [--warning-command COMMAND] [--checkpoint-file PATH] [--stateless] "
        "-- PROGRAM [ARGUMENT ...]"
    )
    parser.add_argument(
        "--warning-command", metavar="COMMAND", help="saves, or asks the program to save"
    )
    parser.add_argument(
        "--checkpoint-file",
        type=Path,
        metavar="PATH",
        help="the program renames a new checkpoint over this path",
    )
    parser.add_argument("--stateless", action="store_true", help="there is never anything to save")
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="what to run, with its arguments, after --",
    )
    return parser


def run(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> int:
    """Run the program of the arguments; return the exit code for the launcher.

    The process is the launcher's from here on: its signals stay taken.
    """
    values = os.environ if environment is None else environment
    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    try:
        _check(arguments, command, values)
        starter = Starter(take_signals())
        saving = _saving(arguments, starter, values)
        return Launcher(saving, starter, values).run(command)
    except JobError as error:
        return _refuse(str(error), EXIT_WRONG)
    except OSError as error:
        code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_RUNNABLE
        return _refuse(
            f"{command[0]} cannot be run: {error.strerror}; name a program on PATH, or its path",
            code,
        )


def _check(
    arguments: argparse.Namespace, command: list[str], environment: Mapping[str, str]
) -> None:
    if not command:
        raise LaunchError("nothing to run; put the program after --: walras run -- python train.py")
    if arguments.stateless and (arguments.warning_command or arguments.checkpoint_file):
        raise LaunchError(
            "--stateless means that there is nothing to save; leave out --warning-command and "
            "--checkpoint-file, or --stateless"
        )
    directory = control_directory_of(environment)
    if directory is not None and not directory.is_dir():
        raise ControlDirectoryMissingError(
            f"the control directory {directory} is not there: mount it into the job's container, "
            "or unset WALRAS_CONTROL_DIR to run outside Walras"
        )
    if not hasattr(os, "waitid") or sys.platform == "darwin":
        raise LaunchError(f"the launcher waits for signals in a way that {sys.platform} lacks")


def _saving(
    arguments: argparse.Namespace, starter: Starter, environment: Mapping[str, str]
) -> Saving:
    path = arguments.checkpoint_file
    file = None if path is None else CheckpointFile(path.absolute())
    if arguments.warning_command:
        return WarningCommand(arguments.warning_command, starter, environment, file)
    if file is not None:
        return file
    return Stateless() if arguments.stateless else NoSaving()


def _refuse(text: str, code: int) -> int:
    sys.stderr.write(f"walras run: {text}\n")
    return code
