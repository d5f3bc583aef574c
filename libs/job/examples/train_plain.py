"""Trains a line through points, leaves when it is asked to, and goes on where it was.

Standard library only. ``python train_plain.py --help``
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

from walras_job import Checkpoint, drainable

RATE = 0.05


def train_step(weights: list[float], step: int) -> float:
    """Make one step; the points of a step are the same on every run."""
    draw = random.Random(step)
    loss = 0.0
    for _ in range(8):
        x = draw.uniform(-1, 1)
        error = weights[0] * x + weights[1] - (3 * x + 1)
        weights[0] -= RATE * error * x
        weights[1] -= RATE * error
        loss += error * error / 8
    return loss


def main() -> None:
    """Train to the last step, or until the node agent asks for the devices."""
    arguments = parse_arguments()
    checkpoint = Checkpoint(arguments.checkpoints)
    latest = checkpoint.latest()
    if latest is None:
        step, weights = 0, [0.0, 0.0]
    else:
        step, weights = latest.step, json.loads(latest.read())
    say(f"begins after step {step}")
    with drainable() as drain:
        while step < arguments.steps:
            step += 1
            loss = train_step(weights, step)
            say(f"step {step} loss {loss:.9f}")
            if drain.requested:
                saved = checkpoint.save(json.dumps(weights).encode(), step)
                drain.done(step, saved)
                say(f"leaves after step {step}: {drain.reason}")
                return
            if step % arguments.every == 0:
                checkpoint.save(json.dumps(weights).encode(), step)
            time.sleep(arguments.pause_ms / 1_000)
    checkpoint.save(json.dumps(weights).encode(), step)
    say(f"finished: {weights[0]:.6f} x + {weights[1]:.6f}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000, help="last step (%(default)s)")
    parser.add_argument("--every", type=int, default=100, help="steps a save (%(default)s)")
    parser.add_argument("--pause-ms", type=int, default=0, help="rest after a step (%(default)s)")
    parser.add_argument(
        "--checkpoints",
        type=Path,
        default=os.environ.get("WALRAS_CHECKPOINT_DIR", "checkpoints"),
        help="directory ($WALRAS_CHECKPOINT_DIR; %(default)s)",
    )
    return parser.parse_args()


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
