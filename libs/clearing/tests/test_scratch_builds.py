"""The runs on other builds work: sanitizers report what is planted, the line tracer sees lines."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from libs.clearing.fuzz.line_coverage import (
    PLUGIN,
    coverage_of,
    executable_lines,
    measured,
    ranges,
    report,
)
from libs.clearing.fuzz.sanitized import (
    OVERFLOW_FLAG,
    NotSanitized,
    check_that_faults_are_reported,
    check_that_modules_are_sanitized,
    run_under_sanitizers,
)
from libs.clearing.fuzz.scratch_build import LIBRARY, ROOT, ScratchBuild, built_copy

GENERATED = """
static const char* const __pyx_f[] = {
  "src/walras_clearing/_kernel.pyx",
  "<stringsource>",
  "src/walras_clearing/_rows.pxd",
};
  __Pyx_TraceLine(7,0,1,__PYX_ERR(0, 7, __pyx_L1_error))
  __Pyx_TraceLine(9,3,0,__PYX_ERR(0, 9, __pyx_L1_error))
  __Pyx_TraceLine(5,3,0,__PYX_ERR(1, 5, __pyx_L1_error))
  __Pyx_TraceLine(3,3,0,__PYX_ERR(2, 3, __pyx_L1_error))
"""


def test_a_build_without_sanitizers_is_not_taken_for_one_with(tmp_path: Path) -> None:
    package = tmp_path / LIBRARY / "src" / "walras_clearing"
    package.mkdir(parents=True)
    (package / "_kernel.so").write_bytes(b"nothing in here")
    with pytest.raises(NotSanitized, match="without the sanitizers"):
        check_that_modules_are_sanitized(ScratchBuild(tmp_path))
    (package / "_kernel.so").write_bytes(b"__asan_report_load8 __ubsan_handle_shift")
    with pytest.raises(NotSanitized, match="fno-wrapv"):
        check_that_modules_are_sanitized(ScratchBuild(tmp_path))


def test_lines_that_can_run_are_read_from_what_cython_wrote() -> None:
    lines = executable_lines([GENERATED, GENERATED])
    assert lines == {"_kernel.pyx": {7, 9}, "_rows.pxd": {3}}


def test_coverage_counts_the_lines_that_ran_and_names_the_others() -> None:
    kernel, rows = coverage_of({"_k.pyx": {1, 2, 4, 9}, "_r.pxd": {3}}, {"_k.pyx": [2, 9, 77]})
    assert (kernel.percent, kernel.never_run) == (50.0, [1, 4])
    assert (rows.percent, rows.never_run) == (0.0, [3])
    assert ranges([1, 2, 3, 7, 9, 10]) == "1–3, 7, 9–10"
    assert report([]).startswith("source")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_traced_build_tells_run_lines_from_others(tmp_path: Path) -> None:
    build = built_copy("traced", tmp_path)
    tests = build.folder / LIBRARY / "tests"
    for file in tests.glob("test_*.py"):
        if file.name != "test_pitfalls.py":
            file.unlink()
    status, found = measured(build, [])
    assert status == 0
    assert sum(len(each.seen) for each in found) > 100
    assert any(each.never_run for each in found), "one file of tests cannot run every line"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_overflow_in_a_compiled_module_ends_a_sanitized_run(tmp_path: Path) -> None:
    """Canary of the whole chain: a test that calls a faulty module makes the run fail."""
    build = built_copy("sanitized", tmp_path / "checkout", compiler_flags=OVERFLOW_FLAG)
    check_that_modules_are_sanitized(build)
    check_that_faults_are_reported(tmp_path)
    tests = build.folder / LIBRARY / "tests"
    shutil.rmtree(tests)
    tests.mkdir()
    library = tmp_path / "planted_faults.so"
    (tests / "test_planted.py").write_text(
        f"import ctypes\ndef test_it(): ctypes.CDLL({str(library)!r}).overflow(1)\n", "utf-8"
    )
    reports = tmp_path / "reports"
    reports.mkdir()
    status, found = run_under_sanitizers(build, reports, [])
    assert status != 0
    assert any("signed integer overflow" in each for each in found)


def test_the_tracing_plugin_is_importable_where_pytest_looks_for_it() -> None:
    program = [sys.executable, "-c", f"import {PLUGIN}"]
    assert subprocess.run(program, cwd=ROOT, check=False).returncode == 0
