"""The package stands alone: what a job imports must not pull in anything else."""

import sys
from pathlib import Path

import pytest

from libs.job.tests.agent_side import SOURCES, run

MODULES = sorted(
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCES / "walras_job").rglob("*.py")
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_needs_the_standard_library_only(module: str, tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import {module}"
    done = run([sys.executable, "-I", "-S", "-c", program], {})
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sdk_starts_no_thread_and_opens_no_network() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import walras_job, threading; "
        "print(threading.active_count(), {'socket', 'asyncio', 'subprocess'} & set(sys.modules))"
    )
    done = run([sys.executable, "-I", "-S", "-c", program], {})
    assert done.stdout == "1 set()\n", done.stderr
