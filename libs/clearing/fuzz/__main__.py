"""Feeds mutated instances to the path of `walras clear`: `make fuzz`.

Ends with 0 when every input was cleared and verified, or refused with `ClearingInputError`; with 1
when one was not. The seed is printed; the same seed gives the same inputs in the same order.
"""

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from libs.clearing.fuzz.campaign import ROOT, Plan, run_campaign


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign and print what came of it."""
    options = _parser().parse_args(argv)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"fuzz: seed {seed}, {options.seconds:g} s", flush=True)
    plan = Plan(seed, options.seconds, options.iterations, options.findings)
    outcome = run_campaign(plan, lambda line: print(f"fuzz: {line}", flush=True))
    for name, count in sorted(outcome.tally.items(), key=lambda item: -item[1]):
        print(f"  {count:>10,} {name}")
    print(f"fuzz: {outcome.inputs:,} inputs, {len(outcome.findings)} findings")
    for finding in outcome.findings:
        print(f"  {finding.file}: {finding.detail}")
    return int(bool(outcome.findings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="length of the run (300)")
    parser.add_argument("--seed", type=int, help="of the inputs (drawn anew)")
    parser.add_argument("--iterations", type=int, default=10**12, help="inputs at most")
    parser.add_argument(
        "--findings",
        type=Path,
        default=ROOT / "out" / "fuzz",
        metavar="FOLDER",
        help="where inputs that did harm are saved (out/fuzz)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
