"""Runs inputs in a process that may die: started by `campaign`, with its plan as arguments.

Before an input is run it is written to a file, so that whoever watches can save what killed this
process. On standard output: one line of JSON for each finding, and the tally at the end.
"""

import argparse
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from time import monotonic
from types import MappingProxyType
from typing import Final

from libs.clearing.fuzz.mutations import mutated_input
from libs.clearing.fuzz.target import run_input
from walras_clearing.model import Margin

MEMORY_LIMIT: Final = 4 << 30
"""Address space in bytes: an input that makes the library ask for more is a finding."""
REFERENCE_EVERY: Final = 4


def _loop_for_ever() -> None:
    while True:
        pass


def _divide() -> None:
    raise ZeroDivisionError("planted")


PLANTS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {"crash": os.abort, "hang": _loop_for_ever, "exception": _divide}
)
"""Faults that a canary plants: they strike at the first input with two pools."""


def main() -> int:
    """Run a stretch of inputs; return 0 also where there were findings."""
    options = _parser().parse_args()
    # A sanitizer reserves address space by the terabyte.
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tally: Counter[str] = Counter()
    ends = monotonic() + options.seconds
    iteration = options.first
    while iteration < options.end and monotonic() < ends:
        data, margin, reference = drawn(options.seed, iteration)
        options.current.write_bytes(data)
        options.progress.write_text(str(iteration), "ascii")
        try:
            if options.plant and data.count(b'"own_supply_macc"') > 1:
                PLANTS[options.plant]()
            tally[run_input(data, margin, reference=reference)] += 1
        # Whatever comes out beside the one permitted error is what the fuzzer looks for.
        except Exception as error:  # noqa: BLE001
            tally["finding"] += 1
            _print({"finding": f"{type(error).__name__}: {error}"[:500], "iteration": iteration})
        iteration += 1
    _print({"tally": dict(sorted(tally.items())), "next": iteration})
    return 0


def drawn(seed: int, iteration: int) -> tuple[bytes, Margin, bool]:
    """Return the input of an iteration, its margin policy, and whether the specification is asked.

    A function of its arguments: an input can be drawn again from the two numbers of a finding.
    """
    rng = Random(f"{seed}/{iteration}")
    margin: Margin = "strict_order" if rng.random() < 0.3 else "pro_rata"
    return mutated_input(rng), margin, iteration % REFERENCE_EVERY == 0


def _print(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--end", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--current", type=Path, required=True)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("--plant", choices=tuple(PLANTS))
    return parser


if __name__ == "__main__":
    sys.exit(main())
