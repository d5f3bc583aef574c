"""Which lines of the compiled sources the tests run: `make cov-pyx`.

The library is built in the mode ``traced`` in a scratch copy, where every line tells the
interpreter's tracer that it runs, and the tests run on it (without the slow ones). What can run at
all is read from the C code that Cython wrote.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Final, TextIO

from libs.clearing.fuzz.line_tracing import LINES_OPTION, TRACER_OPTION
from libs.clearing.fuzz.scratch_build import LIBRARY, ROOT, BuildFailed, ScratchBuild, built_copy

TRACER: Final = Path(__file__).with_name("line_tracer.c")
PLUGIN: Final = "libs.clearing.fuzz.line_tracing"
FILE_TABLE: Final = re.compile(r"__pyx_f\[\] = \{(.*?)\};", re.DOTALL)
TRACED_LINE: Final = re.compile(r"__Pyx_TraceLine\((\d+),\d+,\d+,__PYX_ERR\((\d+),")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Lines of one source that can run, and those of them that did."""

    source: str
    executable: frozenset[int]
    seen: frozenset[int]

    @property
    def never_run(self) -> list[int]:
        """Lines that can run and did not, in order."""
        return sorted(self.executable - self.seen)

    @property
    def percent(self) -> float:
        """Share of the lines that ran."""
        run = len(self.executable) - len(self.never_run)
        return 100.0 * run / len(self.executable) if self.executable else 100.0


def executable_lines(c_sources: Iterable[str]) -> dict[str, set[int]]:
    """Read from Cython's output which lines of which source have code."""
    lines: dict[str, set[int]] = {}
    for text in c_sources:
        table = FILE_TABLE.search(text)
        names = (
            [PurePath(name).name for name in re.findall(r'"([^"]+)"', table[1])] if table else []
        )
        for line, file in TRACED_LINE.findall(text):
            lines.setdefault(names[int(file)], set()).add(int(line))
    return {name: found for name, found in lines.items() if name.endswith((".pyx", ".pxd"))}


def coverage_of(
    executable: Mapping[str, set[int]], seen: Mapping[str, Sequence[int]]
) -> list[Coverage]:
    """Put what ran beside what can run."""
    return [
        Coverage(name, frozenset(lines), frozenset(seen.get(name, ())) & lines)
        for name, lines in sorted(executable.items())
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Write sorted line numbers as ``3, 7–9``."""
    groups = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{r[0]}" if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs)


def built_tracer(folder: Path) -> Path:
    """Compile the tracer against the headers of this interpreter.

    Raises
    ------
    BuildFailed
        There is no compiler, or no `Python.h`.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BuildFailed("no C compiler here")
    target, headers = folder / "line_tracer.so", sysconfig.get_path("include")
    program = [compiler, "-O2", "-shared", "-fPIC", f"-I{headers}", str(TRACER), "-o", str(target)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(done.stderr.strip())
    return target


def measured(build: ScratchBuild, arguments: Sequence[str]) -> tuple[int, list[Coverage]]:
    """Run the tests on a traced build; return their exit code and the coverage by source."""
    tracer, words = built_tracer(build.folder), build.folder / "lines.json"
    options = [f"{TRACER_OPTION}={tracer}", f"{LINES_OPTION}={words}"]
    done = build.run_tests({}, ["-p", PLUGIN, *options, *arguments])
    sys.stderr.buffer.write(done.stderr)
    generated = sorted((build.folder / LIBRARY / "build" / "traced").rglob("*.c"))
    executable = executable_lines(path.read_text("utf-8") for path in generated)
    seen = json.loads(words.read_text("utf-8")) if words.exists() else {}
    return done.returncode, coverage_of(executable, seen)


def report(found: Sequence[Coverage]) -> str:
    """Write the table and, by source, the lines that never ran."""
    lines = [f"{'source':24} {'lines':>6} {'run':>6} {'percent':>8}"]
    for each in found:
        run = len(each.executable) - len(each.never_run)
        lines.append(f"{each.source:24} {len(each.executable):6} {run:6} {each.percent:8.1f}")
    for each in found:
        if each.never_run:
            lines.append(f"{each.source} never ran: {ranges(each.never_run)}")
            source = ROOT / LIBRARY / "src" / "walras_clearing" / each.source
            text = source.read_text("utf-8").splitlines()
            lines += [f"  {number:5}  {text[number - 1].strip()}" for number in each.never_run]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Build, test, report; return the exit code of the tests."""
    parser = argparse.ArgumentParser(prog="cov-pyx", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, after --")
    options = parser.parse_args(argv)
    with TemporaryDirectory(prefix="walras-traced-") as folder:
        try:
            _say("cov-pyx: building the traced mode in a scratch copy")
            build = built_copy("traced", Path(folder))
            status, found = measured(build, options.pytest)
        except BuildFailed as error:
            _say(f"cov-pyx: {error}", sys.stderr)
            return 2
    _say(report(found))
    if not any(each.seen for each in found):
        _say("cov-pyx: no line was seen at all; the tracer does not work", sys.stderr)
        return 2
    return status


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
