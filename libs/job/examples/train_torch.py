"""Trains a linear layer with PyTorch, leaves when it is asked to, and goes on where it was.

Where PyTorch is not installed the same loop trains NumPy weights, and says so on standard error.
``python train_torch.py --help``
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Protocol

from walras_job import Checkpoint, drainable

INPUTS, BATCH, RATE, MOMENTUM = 4, 16, 0.05, 0.9


class Model(Protocol):
    """What the loop needs of a model, whichever library it is made of."""

    def step(self, number: int) -> float:
        """Make one step on the batch of that number; return the loss."""

    def save(self, stream: BinaryIO) -> None:
        """Write weights and optimizer; the stream cannot seek."""

    def load(self, stream: BinaryIO) -> None:
        """Read what :meth:`save` wrote."""


class TorchModel:
    """A linear layer and its optimizer."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.layer = torch.nn.Linear(INPUTS, 1).to(self.device)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=RATE, momentum=MOMENTUM)

    def step(self, number: int) -> float:
        """Make one step on the batch of that number; return the loss."""
        draw = self.torch.Generator().manual_seed(number)
        x = self.torch.rand(BATCH, INPUTS, generator=draw).to(self.device)
        wanted = x.sum(dim=1, keepdim=True) + 1
        loss = self.torch.nn.functional.mse_loss(self.layer(x), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss)

    def save(self, stream: BinaryIO) -> None:
        """Write weights and optimizer."""
        state = {"layer": self.layer.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.torch.save(state, stream)

    def load(self, stream: BinaryIO) -> None:
        """Read what was written, wherever it was trained."""
        state = self.torch.load(stream, map_location=self.device, weights_only=True)
        self.layer.load_state_dict(state["layer"])
        self.optimizer.load_state_dict(state["optimizer"])


class NumpyModel:
    """The same layer and optimizer in a few lines of NumPy."""

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        self.weights = numpy.zeros(INPUTS + 1)
        self.speed = numpy.zeros(INPUTS + 1)

    def step(self, number: int) -> float:
        """Make one step on the batch of that number; return the loss."""
        x = self.numpy.random.default_rng(number).random((BATCH, INPUTS))
        x = self.numpy.hstack([x, self.numpy.ones((BATCH, 1))])
        # Summed by NumPy itself: BLAS may choose another kernel next time, which rounds otherwise.
        error = (x * self.weights).sum(axis=1) - x.sum(axis=1)
        slope = (x * error[:, self.numpy.newaxis]).sum(axis=0)
        self.speed = MOMENTUM * self.speed + 2 * slope / BATCH
        self.weights -= RATE * self.speed
        return float((error**2).mean())

    def save(self, stream: BinaryIO) -> None:
        """Write weights and optimizer."""
        self.numpy.savez(stream, weights=self.weights, speed=self.speed)

    def load(self, stream: BinaryIO) -> None:
        """Read what was written."""
        with self.numpy.load(stream) as arrays:
            self.weights, self.speed = arrays["weights"], arrays["speed"]


def make_model() -> Model:
    """Return a model of the library that is there."""
    torch = find("torch")
    if torch is not None:
        return TorchModel(torch)
    numpy = find("numpy")
    if numpy is None:
        sys.exit("neither PyTorch nor NumPy is installed: pip install torch")
    sys.stderr.write("PyTorch is not installed: the same loop trains NumPy weights\n")
    return NumpyModel(numpy)


def find(name: str) -> ModuleType | None:
    """Import a library if it is installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def main() -> None:
    """Train to the last step, or until the node agent asks for the devices."""
    arguments = parse_arguments()
    model = make_model()
    checkpoint = Checkpoint(arguments.checkpoints)
    step = 0
    latest = checkpoint.latest()
    if latest is not None:
        with latest.open() as stream:
            model.load(stream)
        step = latest.step
    say(f"begins after step {step}")
    with drainable() as drain:
        while step < arguments.steps:
            step += 1
            loss = model.step(step)
            say(f"step {step} loss {loss:.9f}")
            if drain.requested:
                saved = checkpoint.save(model.save, step)
                drain.done(step, saved)
                say(f"leaves after step {step}: {drain.reason}")
                return
            if step % arguments.every == 0:
                checkpoint.save(model.save, step)
            time.sleep(arguments.pause_ms / 1_000)
    checkpoint.save(model.save, step)
    say(f"finished: loss {model.step(step):.9f}")


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
