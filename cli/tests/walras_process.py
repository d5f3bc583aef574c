"""Runs the `walras` command as a process of its own, with none of this machine's settings."""

import os
import subprocess
import sys
from pathlib import Path


def walras(cwd: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command line in a folder; ``variables`` are all the settings that it gets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WALRAS_")}
    return subprocess.run(
        [sys.executable, "-m", "walras", *words],
        cwd=cwd,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
