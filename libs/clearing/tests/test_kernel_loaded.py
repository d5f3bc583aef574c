"""What runs is the compiled kernel, built from the source in the tree."""

import hashlib
import importlib
import importlib.machinery
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import walras_clearing
from walras_clearing import BUILD_STAMPS
from walras_clearing.kernel import MODULES

PACKAGE = Path(walras_clearing.__file__).parent
SOURCES = {".pyx", ".pxd", ".h"}


def stamp_of(folder: Path) -> str:
    """Hash what the modules are compiled from, each file under its name."""
    body = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.suffix in SOURCES:
            body.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return body.hexdigest()


@pytest.mark.parametrize("name", MODULES)
def test_what_is_loaded_is_a_compiled_module(name: str) -> None:
    module = importlib.import_module(f"walras_clearing.{name}")
    assert str(module.__file__).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def test_every_source_in_the_tree_is_a_module_that_is_loaded() -> None:
    assert {path.stem for path in PACKAGE.glob("*.pyx")} == set(MODULES)


def test_every_loaded_module_was_built_from_the_sources_in_the_tree() -> None:
    assert dict.fromkeys(MODULES, stamp_of(PACKAGE)) == BUILD_STAMPS, "rebuild the library"


def test_the_stamp_changes_with_any_byte_and_any_name_of_a_source(tmp_path: Path) -> None:
    """Canary of this file: an edited source would not pass as the one that was compiled."""
    stamps = {stamp_of(PACKAGE)}
    sources = [path for path in PACKAGE.iterdir() if path.suffix in SOURCES]
    for number, altered in enumerate(sources):
        copy = tmp_path / str(number)
        copy.mkdir()
        for path in sources:
            shutil.copy(path, copy)
        (copy / altered.name).write_bytes(altered.read_bytes() + b"\n")
        stamps.add(stamp_of(copy))
        (copy / altered.name).write_bytes(altered.read_bytes())
        (copy / altered.name).rename(copy / f"_{altered.name}")
        stamps.add(stamp_of(copy))
    assert len(stamps) == 1 + 2 * len(sources)


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
    assert "_rows.pyx" in done.stderr, "the message lists what was found"
