"""What runs is the compiled kernel, built from the source in the tree."""

import hashlib
import importlib.machinery
import os
import shutil
import subprocess
import sys
from pathlib import Path

import walras_clearing
from walras_clearing import BUILD_STAMP
from walras_clearing.kernel import kernel

PACKAGE = Path(walras_clearing.__file__).parent


def test_the_loaded_kernel_is_a_compiled_module() -> None:
    assert str(kernel.__file__).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def test_the_loaded_kernel_was_built_from_the_source_in_the_tree() -> None:
    source = (PACKAGE / "_kernel.pyx").read_bytes()
    assert hashlib.sha256(source).hexdigest() == BUILD_STAMP, "rebuild the kernel"


def test_a_missing_kernel_says_how_to_build_it(tmp_path: Path) -> None:
    copy = tmp_path / "walras_clearing"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    program = (
        "from walras_clearing.errors import KernelUnavailableError\n"
        "raise SystemExit('imported without a kernel')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "KernelUnavailableError" in done.stderr
    assert "build_ext --inplace" in done.stderr
    assert "_kernel.pyx" in done.stderr, "the message lists what was found"
