"""A bench run as its users do, in small, for the tests of the benches."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from walras_launcher import LauncherError, prepare_kafka
from walras_launcher.pytest_plugin import missing


def quick_run(bench: Path, folder: Path) -> dict[str, Any]:
    """Run it with ``--quick`` on a real broker; return what it printed and recorded."""
    try:
        prepare_kafka()
    except LauncherError as error:
        missing("broker", error)
    history = folder / "history.jsonl"
    run = subprocess.run(
        [sys.executable, str(bench), "--quick", "--json", "--history", str(history)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    assert [json.loads(line) for line in history.read_text("utf-8").splitlines()] == [document]
    assert document["quick"] is True
    assert all(document["machine"].values())
    return document
