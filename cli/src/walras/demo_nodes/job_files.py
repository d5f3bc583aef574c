"""The jobs of the demo as files for ``walras submit``."""

import json
import os
import sys
from typing import Any

from walras.billing_log.amounts import MICRO_PLACES, scaled_text
from walras.demo_nodes.folders import NodeFolders
from walras.demo_nodes.scenario import NodesScenario, TrainingJob
from walras.jobs_log.units import duration_text

MODULE = "walras.demo_nodes.training"
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""One thread a process: the sums over an array are then the same in every run."""
STARTUP_MS = 2_000
"""What a save is given beyond the time that it is slowed down to."""


def job_file(job: TrainingJob, scenario: NodesScenario, folders: NodeFolders) -> str:
    """Return the text of a job's file: a whole node for a training process."""
    fields: dict[str, Any] = {
        "team": job.team,
        "job": job.job,
        "types": [scenario.market.type],
        "accelerators": scenario.nodes.devices,
        "limit": scaled_text(job.limit, MICRO_PLACES),
        "drainability": "checkpoint",
    }
    run = {
        "command": [sys.executable, "-m", MODULE, *training_arguments(job, folders)],
        "checkpoint": duration_text(job.save + STARTUP_MS),
        "stop": "2s",
    }
    environment = dict(THREADS)
    if path := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = path
    return "\n".join(
        (
            *_lines(fields),
            "\n[run]",
            *_lines(run),
            "\n[run.environment]",
            *_lines(environment),
            "",
        )
    )


def training_arguments(job: TrainingJob, folders: NodeFolders) -> list[str]:
    """Return the arguments of its training."""
    numbers = {"steps": job.steps, "every": job.every, "step-ms": job.step, "save-ms": job.save}
    words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    return [*words, "--nodes", str(folders.nodes)]


def _lines(fields: dict[str, Any]) -> list[str]:
    # Texts, whole numbers and lists of texts read the same in JSON and in TOML.
    return [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
