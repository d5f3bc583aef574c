"""Measures one row and prints it as a line of JSON: what the command starts, once for each row.

A process of its own for each row, so that libraries are on one thread from their first moment, a
row's peak memory is its own, and a crash ends one row.
"""

import argparse
import json
import sys
from time import perf_counter

from libs.clearing.benchmarks.report import RowReport
from libs.clearing.benchmarks.rows import ROWS
from libs.clearing.benchmarks.setting import setting_of
from tests.performance.process_time import CpuMeter


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    meter, began = CpuMeter({}), perf_counter()
    figures = tuple(ROWS[options.row](setting_of(options.seed, quick=options.quick)))
    others = meter.used()["others"] / (perf_counter() - began)
    report = RowReport(options.row, figures, round(others, 2))
    sys.stdout.write(json.dumps(report.document()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
