"""Instructions of a cold and of a warm clear at 10⁵ jobs, counted by callgrind.

Counts do not depend on how busy the machine is, so that a change of a few percent can be seen and
must be explained: `instructions.json` carries each count with its reason. As a command::

    python -m libs.clearing.benchmarks.instructions --check
    python -m libs.clearing.benchmarks.instructions --record --reason "why the counts moved"

exits with 0 (within the tolerance, or nothing to compare here), or 1.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from libs.clearing.benchmarks.figures import BenchError, Figure, at_most
from libs.clearing.benchmarks.machine import ROOT, compiler_version, one_thread
from libs.clearing.benchmarks.nested_bisection import compiler

RECORD: Final = Path(__file__).with_name("instructions.json")
REQUESTS: Final = Path(__file__).with_name("callgrind_requests.c")
KINDS: Final = ("cold", "warm")
TOLERANCE_PERCENT: Final = 5.0
COUNTED: Final = "libs.clearing.benchmarks.counted_clear"


class NotCounted(RuntimeError):  # noqa: N818 -- an outcome, not a defect
    """The machine lacks what counting needs; the message says what."""

    code = "not_counted"
    retriable = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """One count beside the recorded one."""

    kind: str
    counted: int
    recorded: int
    reason: str

    @property
    def change_percent(self) -> float:
        """Change against the record."""
        return 100.0 * (self.counted - self.recorded) / self.recorded


def count(kind: str) -> int:
    """Run one clear under callgrind; return its instructions, the interpreter's included.

    Raises
    ------
    NotCounted
        There is no valgrind, none of its headers, or no compiler.
    BenchError
        The run failed.
    """
    valgrind, command = shutil.which("valgrind"), compiler()
    if valgrind is None or command is None:
        raise NotCounted("no valgrind here" if valgrind is None else "no C compiler here")
    with TemporaryDirectory(prefix="walras-count-") as folder:
        library, out = Path(folder) / "requests.so", Path(folder) / "out"
        built = [command, "-O2", "-shared", "-fPIC", str(REQUESTS), "-o", str(library)]
        if subprocess.run(built, capture_output=True, check=False).returncode != 0:
            raise NotCounted("valgrind's headers are not here")
        tool = [valgrind, "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"]
        program = [sys.executable, "-m", COUNTED, kind, str(library)]
        done = subprocess.run(
            [*tool, f"--callgrind-out-file={out}", *program],
            cwd=ROOT,
            # The order of hashing is the one thing in an interpreter that differs between runs.
            env={**os.environ, **one_thread(), "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        written = out.read_text("utf-8") if out.exists() else ""
        found = re.search(r"^totals: (\d+)", written, re.MULTILINE)
        if done.returncode != 0 or found is None or int(found[1]) == 0:
            raise BenchError(f"counting {kind}: {done.stderr.strip()[-2_000:]}")
        return int(found[1])


def built_with() -> dict[str, str]:
    """Return what counts depend on beside the source."""
    return {
        "machine": platform.machine(),
        "compiler": compiler_version(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def faults_of(record: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a record: a missing count, or one without a reason."""
    faults = []
    for kind in KINDS:
        entry = record.get("counts", {}).get(kind, {})
        if not isinstance(entry.get("instructions"), int) or entry["instructions"] <= 0:
            faults.append(f"{kind}: no count is recorded")
        if not str(entry.get("reason", "")).strip():
            faults.append(f"{kind}: the recorded count has no reason")
    return faults


def beyond(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the counts that moved by more than the tolerance, in words."""
    return [
        f"{each.kind}: {each.counted:,} instructions, {each.change_percent:+.1f} % of the "
        f"{each.recorded:,} recorded; say why with --record --reason"
        for each in comparisons
        if abs(each.change_percent) > TOLERANCE_PERCENT
    ]


def read_record(file: Path = RECORD) -> dict[str, Any]:
    """Return the recorded counts; empty where nothing is recorded yet."""
    document: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return document


def compare(record: Mapping[str, Any]) -> list[Comparison]:
    """Count again and put the counts beside the record.

    Raises
    ------
    NotCounted
        Nothing can be counted here, or the record is of another compiler or interpreter.
    BenchError
        The record has faults.
    """
    if faults := faults_of(record):
        raise BenchError("; ".join(faults))
    if record["built_with"] != built_with():
        raise NotCounted(f"recorded with {record['built_with']}, here is {built_with()}")
    return [
        Comparison(kind, count(kind), int(entry["instructions"]), str(entry["reason"]))
        for kind, entry in sorted(record["counts"].items())
    ]


def counted_rows() -> Iterator[Figure]:
    """Yield the counts as rows of the bench."""
    bound = at_most(TOLERANCE_PERCENT)
    try:
        comparisons = compare(read_record())
    except NotCounted as error:
        yield Figure("instructions of cold and warm", None, "% moved", bound, note=str(error))
        return
    for each in comparisons:
        yield Figure(
            work=f"instructions of the {each.kind} clear, 100,000 jobs: {each.counted:,}",
            value=round(abs(each.change_percent), 2),
            unit="% moved",
            bound=bound,
            note=f"recorded {each.recorded:,}: {each.reason}",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Compare or record; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare with what is recorded")
    action.add_argument("--record", action="store_true", help="write the counts; needs --reason")
    parser.add_argument("--reason", default="", help="why the counts are what they are now")
    options = parser.parse_args(argv)
    if options.record and not options.reason.strip():
        parser.error("--record needs a --reason")
    try:
        if options.record:
            counts = {k: {"instructions": count(k), "reason": options.reason} for k in KINDS}
            document = {"built_with": built_with(), "counts": counts}
            RECORD.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
            return _say(json.dumps(counts), 0)
        comparisons = compare(read_record())
    except NotCounted as error:
        return _say(f"not run: {error}", 0)
    except BenchError as error:
        return _say(str(error), 1)
    for each in comparisons:
        _say(f"{each.kind}: {each.counted:,} instructions, {each.change_percent:+.2f} %", 0)
    faults = beyond(comparisons)
    return _say("\n".join(faults), 1) if faults else 0


def _say(text: str, status: int) -> int:
    sys.stdout.write(f"{text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
