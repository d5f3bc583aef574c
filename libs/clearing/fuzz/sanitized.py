"""Runs the library's tests under the address and undefined-behaviour sanitizers: `make asan`.

The library is built in the mode ``sanitized`` in a scratch copy. Any report fails the run, whatever
the tests say; planted faults show first that reports arrive. Leaks are not looked for: an
interpreter that ends does not give everything back.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

from libs.clearing.fuzz.scratch_build import BuildFailed, ScratchBuild, built_copy

PLANTED: Final = Path(__file__).with_name("planted_faults.c")
FAULTS: Final = {
    "read_behind_the_end": "heap-buffer-overflow",
    "overflow": "signed integer overflow",
}
SANITIZE: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g", "-O1")
MARKS: Final = (b"__asan_report_load8", b"__ubsan_handle_")
OVERFLOW_FLAG: Final = "-fno-wrapv"
OVERFLOW_MARK: Final = b"__ubsan_handle_mul_overflow"
"""What modules of a sanitized build refer to. The last is missing where ``-fwrapv``, with which
Python compiles extensions, was left on: overflow would then not be looked for at all."""
UNDEFINED: Final = "runtime error: "
"""What the second sanitizer writes, on standard error whatever its options say."""
RUNTIME: Final = "libasan.so"


class NotSanitized(RuntimeError):  # noqa: N818 -- an outcome, told to whoever started the run
    """There are no sanitizers here, or reports do not arrive; the message says which."""


def preloaded(reports: Path) -> dict[str, str]:
    """Return the environment in which an interpreter loads sanitized modules.

    Raises
    ------
    NotSanitized
        The compiler comes without the runtime of the sanitizers.
    """
    compiler = _compiler()
    program = [compiler, f"-print-file-name={RUNTIME}"]
    runtime = subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(runtime).is_file():
        raise NotSanitized(f"{compiler} comes without {RUNTIME}")
    return {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": f"detect_leaks=0:exitcode=99:log_path={reports / 'report'}",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
        # Blocks of Python's own allocator have no red zones around them.
        "PYTHONMALLOC": "malloc",
    }


def reports_in(folder: Path) -> list[str]:
    """Return the reports that were written, the oldest first."""
    files = sorted(folder.glob("report*"), key=lambda file: file.stat().st_mtime_ns)
    return [file.read_text("utf-8", "replace") for file in files]


def check_that_faults_are_reported(folder: Path) -> None:
    """Run each planted fault in an interpreter of its own: each must be reported by its name.

    Raises
    ------
    NotSanitized
        One was not: a green run would prove nothing.
    """
    library = folder / "planted_faults.so"
    program = [_compiler(), *SANITIZE, "-shared", "-fPIC", str(PLANTED), "-o", str(library)]
    built = subprocess.run(program, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise NotSanitized(built.stderr.strip())
    for fault, name in FAULTS.items():
        reports = folder / fault
        reports.mkdir()
        call = f"import ctypes; ctypes.CDLL({str(library)!r}).{fault}(ctypes.c_int64(7))"
        done = subprocess.run(
            [sys.executable, "-c", call],
            env={**os.environ, **preloaded(reports)},
            capture_output=True,
            text=True,
            check=False,
        )
        if not any(name in report for report in [*reports_in(reports), done.stderr]):
            raise NotSanitized(f"a planted {name} is not reported")


def check_that_modules_are_sanitized(build: ScratchBuild) -> None:
    """Look for the sanitizers in every module.

    Raises
    ------
    NotSanitized
        A module was compiled without them.
    """
    bodies = {module.name: module.read_bytes() for module in build.modules}
    for name, body in bodies.items():
        if not all(mark in body for mark in MARKS):
            raise NotSanitized(f"{name} was compiled without the sanitizers")
    if not any(OVERFLOW_MARK in body for body in bodies.values()):
        raise NotSanitized("overflow is not looked for: the build needs -fno-wrapv")


def run_under_sanitizers(
    build: ScratchBuild, reports: Path, arguments: Sequence[str]
) -> tuple[int, list[str]]:
    """Run the tests; return their exit code and all reports."""
    # A process that the second sanitizer ends takes with it what pytest has captured.
    done = build.run_tests(preloaded(reports), ["--capture=sys", *arguments])
    errors = done.stderr.decode("utf-8", "replace")
    sys.stderr.write(errors)
    undefined = [line for line in errors.splitlines() if UNDEFINED in line]
    return done.returncode, [*reports_in(reports), *undefined]


def main(argv: Sequence[str] | None = None) -> int:
    """Build, plant, test; return 0 without reports and failures, 1 with, 2 where it cannot run."""
    parser = argparse.ArgumentParser(prog="asan", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, after --")
    options = parser.parse_args(argv)
    with TemporaryDirectory(prefix="walras-sanitized-") as name:
        folder = Path(name)
        reports = folder / "reports"
        reports.mkdir()
        try:
            check_that_faults_are_reported(folder)
            _say("asan: planted faults are reported; building the sanitized mode")
            build = built_copy("sanitized", folder / "checkout", compiler_flags=OVERFLOW_FLAG)
            check_that_modules_are_sanitized(build)
            modules = ", ".join(module.name.partition(".")[0] for module in build.modules)
            status, found = run_under_sanitizers(build, reports, options.pytest)
        except (NotSanitized, BuildFailed) as error:
            _say(f"asan: {error}", sys.stderr)
            return 2
    for report in found:
        _say(report)
    _say(f"asan: {len(found)} reports, tests ended with {status}; sanitized: {modules}")
    return int(bool(found) or status != 0)


def _compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotSanitized("no C compiler here")
    return compiler


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
