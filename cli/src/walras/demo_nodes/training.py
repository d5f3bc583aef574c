"""A training job for the demo: it learns a curve, leaves when it is asked to, and goes on later.

A small network of NumPy arrays. The data of a step depend on its number alone, so that a run that
was interrupted ends with the very weights of one that was not. All that it does stands in the file
``journal.jsonl`` of its checkpoint directory, one JSON object a line.

``python -m walras.demo_nodes.training --help``
"""

import argparse
import hashlib
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from walras_job import Checkpoint, Saved, drainable
from walras_job.part import Part

JOURNAL: Final = "journal.jsonl"
HIDDEN: Final = 24
BATCH: Final = 64
RATE: Final = 0.02
KEEP: Final = 1000
"""All checkpoints stay, so that the demo can look at them."""
PIECES: Final = 10

Weights = dict[str, np.ndarray]


def first_weights() -> Weights:
    """Return the weights before step 1."""
    draw = np.random.default_rng(0)
    return {
        "w1": draw.normal(size=(1, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": draw.normal(size=(HIDDEN, 1)) / HIDDEN,
        "b2": np.zeros(1),
    }


def train_step(weights: Weights, step: int) -> float:
    """Make one step on the points of its number; return the loss before it.

    Products are summed by NumPy itself. BLAS chooses a kernel in each process anew, which on one
    machine need not be the same each time, and kernels round differently.
    """
    points = np.random.default_rng(step).uniform(-2.0, 2.0, size=(BATCH, 1))
    across = weights["w2"].T
    hidden = np.tanh(points * weights["w1"] + weights["b1"])
    guess = (hidden * across).sum(axis=1, keepdims=True) + weights["b2"]
    error = guess - np.sin(2.0 * points)
    slope = 2.0 * error / BATCH
    back = slope * across * (1.0 - hidden**2)
    weights["w2"] -= RATE * (hidden * slope).sum(axis=0)[:, np.newaxis]
    weights["b2"] -= RATE * slope.sum(axis=0)
    weights["w1"] -= RATE * (points * back).sum(axis=0)
    weights["b1"] -= RATE * back.sum(axis=0)
    return float((error**2).mean())


def digest(weights: Weights) -> str:
    """Return a digest of every bit of the weights."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(weights[name].tobytes())
    return found.hexdigest()


def payload(weights: Weights) -> bytes:
    """Return what a checkpoint holds."""
    stream = io.BytesIO()
    np.savez(stream, **weights)  # type: ignore[arg-type] # names are no other argument's
    return stream.getvalue()


def restored(saved: Saved) -> Weights:
    """Return the weights of a checkpoint."""
    with saved.open() as stream, np.load(stream) as arrays:
        return {name: arrays[name] for name in arrays.files}


class Journal:
    """What this process did, line by line, at once."""

    def __init__(self, directory: Path, **about: Any) -> None:
        self._path = directory / JOURNAL
        self._about = about

    def say(self, what: str, step: int, **more: Any) -> None:
        """Append a line; it is one write, so that lines of two processes never mix."""
        at_ms = time.time_ns() // 1_000_000
        line = {"what": what, "at_ms": at_ms, "step": step, **self._about, **more}
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")


def hold(devices: Path, node: str, indices: tuple[int, ...]) -> None:
    """Take the memory of simulated devices: a file named by this process in each of them."""
    for index in indices:
        (devices / node / "devices" / str(index) / str(os.getpid())).touch()


def paced(
    data: bytes, save_ms: int, tell: Callable[[str], None] | None
) -> Callable[[BinaryIO], None]:
    """Return what writes a payload in pieces and takes so long for it: a large model's would."""
    size = -(-len(data) // PIECES)

    def write(stream: BinaryIO) -> None:
        for number in range(PIECES):
            stream.write(data[number * size : (number + 1) * size])
            if tell is not None:
                tell(f"{number + 1} of {PIECES} pieces of the checkpoint are written")
            time.sleep(save_ms / 1_000 / PIECES)

    return write


def main() -> None:
    """Train to the last step, or until the node agent asks for the devices."""
    arguments = parse_arguments()
    part = Part.from_environment()
    directory = arguments.checkpoints if part is None else part.checkpoint_directory
    directory.mkdir(parents=True, exist_ok=True)
    about = {"node": "", "lease": "", "attempt": 0, "devices": []}
    if part is not None:
        about = {
            "node": part.node,
            "lease": part.lease,
            "attempt": part.attempt,
            "devices": list(part.devices),
        }
        if arguments.nodes is not None:
            hold(arguments.nodes, part.node, part.devices)
    journal = Journal(directory, **about)
    checkpoint = Checkpoint(directory / "saved", keep=KEEP)
    latest = checkpoint.latest()
    step, weights = (0, first_weights()) if latest is None else (latest.step, restored(latest))
    journal.say("begins", step, digest=digest(weights))
    with drainable() as drain:
        while step < arguments.steps:
            step += 1
            journal.say("step", step, loss=train_step(weights, step))
            asked = drain.requested
            if asked or step % arguments.every == 0 or step == arguments.steps:
                tell = drain.waiting_for if asked else None
                checkpoint.save(paced(payload(weights), arguments.save_ms, tell), step)
                journal.say("saved", step, digest=digest(weights), asked=asked)
            # A drain that was called off meanwhile is not answered: work goes on.
            if asked and drain.done(step, checkpoint.directory):
                journal.say("leaves", step)
                return
            time.sleep(arguments.step_ms / 1_000)
    journal.say("finished", step, digest=digest(weights))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="last step (%(default)s)")
    parser.add_argument("--every", type=int, default=50, help="steps a save (%(default)s)")
    parser.add_argument("--step-ms", type=int, default=0, help="rest after a step (%(default)s)")
    parser.add_argument("--save-ms", type=int, default=0, help="a save takes so long (%(default)s)")
    parser.add_argument("--nodes", type=Path, help="directory of the nodes with simulated devices")
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("checkpoints"), help="outside Walras: where to"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
