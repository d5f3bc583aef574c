"""The auction stands alone: as sdist and wheel, installed beside NumPy, tested without source.

The wheel is built from the unpacked sdist, so a file that the sdist lacks is missed here. Tests,
README and pages are copied to a folder in which there is no source to fall back on.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from libs.clearing.fuzz.scratch_build import (
    LEFT_BEHIND,
    LIBRARY,
    NEEDS_THE_CHECKOUT,
    PYTEST_SETTINGS,
    ROOT,
)

TOOLS = ("numpy", "pytest", "hypothesis", "pytest-timeout")
COPIED = ("tests", "fuzz", "docs", "README.md")
"""What the tests read beside the installed package."""
SOURCES = {".py", ".pyx", ".pxd", ".pyi", ".h"}
QUICK = ("test_readme.py", "test_pitfalls.py", "test_instance.py", "test_kernel_loaded.py")
BUILD = (
    "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])('.'))"
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel in it, the sources, and the files that both builds hold."""

    python: Path
    checkout: Path
    sources: set[str]
    sdist_names: list[str]
    wheel_names: list[str]

    def run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python in the folder without source."""
        return run([str(self.python), *arguments], self.checkout)


def run(
    command: Sequence[str], folder: Path, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # What this test run was told to import must not reach the new environment.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **(extra or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def built(kind: str, folder: Path) -> Path:
    """Build in a folder without isolation: the build tools are those of the checkout, pinned."""
    done = run([sys.executable, "-c", BUILD, kind], folder, {"WALRAS_CLEARING_BUILD": "release"})
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return folder / done.stdout.splitlines()[-1]


def find_uv() -> str | None:
    own = ROOT / ".tools" / "bin" / "uv"
    return os.environ.get("UV") or shutil.which("uv") or (str(own) if own.exists() else None)


def install(python: Path, wheel: Path, folder: Path) -> None:
    """Install the wheel and the tools of its tests; from the cache where it has them."""
    wanted = [str(wheel), *(f"{name}=={version(name)}" for name in TOOLS)]
    uv = find_uv()
    if uv is None:
        attempts = [[str(python), "-m", "pip", "install", "--quiet", *wanted]]
    else:
        command = [uv, "pip", "install", "--quiet", "--python", str(python), *wanted]
        attempts = [[*command, "--offline"], command]
    errors = []
    for attempt in attempts:
        done = run(attempt, folder)
        if done.returncode == 0:
            return
        errors.append(done.stderr)
    pytest.fail("\n".join(errors))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / LIBRARY, source, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    package = source / "src" / "walras_clearing"
    sources = {path.name for path in package.iterdir() if path.suffix in SOURCES}
    sdist = built("build_sdist", source)
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    shutil.rmtree(source)
    made_wheel = built("build_wheel", unpacked)
    wheel = made_wheel.rename(folder / made_wheel.name)
    shutil.rmtree(folder / "unpacked")
    environment = folder / "environment"
    options = ["--without-pip"] if find_uv() else []
    made = run([sys.executable, "-m", "venv", *options, str(environment)], folder)
    assert made.returncode == 0, made.stderr
    python = environment / "bin" / "python"
    install(python, wheel, folder)
    checkout = folder / "checkout"
    for name in COPIED:
        original, copy = ROOT / LIBRARY / name, checkout / LIBRARY / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.is_dir():
            shutil.copytree(original, copy, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        else:
            shutil.copy(original, copy)
    shutil.copy(ROOT / "conftest.py", checkout)
    (checkout / "pytest.ini").write_text(PYTEST_SETTINGS, "utf-8")
    with zipfile.ZipFile(wheel) as archive_of_wheel:
        yield Installed(python, checkout, sources, names, archive_of_wheel.namelist())


def test_the_environment_holds_numpy_and_tools_of_tests_and_nothing_of_walras_but_the_wheel(
    installed: Installed,
) -> None:
    program = (
        "import sys, importlib.util as u, walras_clearing as w; from importlib.metadata import "
        "distributions as d, requires; print(w.__file__); print(requires('walras-clearing'));"
        "print(sorted(x.name for x in d() if x.name.startswith(('walras', 'cython', 'Cython'))));"
        "print(u.find_spec('walras_contracts'))"
    )
    done = installed.run(["-c", program])
    assert done.returncode == 0, done.stderr
    where, needs, names, contracts = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed.python.parent.parent), "not the wheel's"
    assert needs.startswith("['numpy")
    assert names == "['walras-clearing']"
    assert contracts == "None"


def test_the_sdist_holds_every_source_and_the_wheel_no_generated_c(installed: Installed) -> None:
    packed = {Path(name).name for name in installed.sdist_names}
    assert installed.sources - packed == set()
    wheel = [Path(name) for name in installed.wheel_names]
    assert [str(path) for path in wheel if path.suffix == ".c"] == []
    assert {path.name for path in wheel} >= {"py.typed", "__init__.py", "METADATA"}
    compiled = {path.name.partition(".")[0] for path in wheel if path.suffix == ".so"}
    assert compiled == {Path(name).stem for name in installed.sources if name.endswith(".pyx")}


def test_a_part_of_its_tests_and_the_readme_pass_from_the_wheel(installed: Installed) -> None:
    tests = installed.checkout / LIBRARY / "tests"
    done = installed.run(
        ["-m", "pytest", "-q", "-p", "no:asyncio", *(str(tests / name) for name in QUICK)]
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


def test_all_its_tests_can_be_collected_beside_the_wheel_alone(installed: Installed) -> None:
    """What the slow run needs, at once: no test imports another member of the workspace."""
    tests = installed.checkout / LIBRARY / "tests"
    ignored = f"--ignore={tests / NEEDS_THE_CHECKOUT}"
    done = installed.run(["-m", "pytest", "-q", "--collect-only", ignored, str(tests)])
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_its_tests_pass_from_the_wheel(installed: Installed) -> None:
    tests = installed.checkout / LIBRARY / "tests"
    ignored = f"--ignore={tests / NEEDS_THE_CHECKOUT}"
    done = installed.run(["-m", "pytest", "-q", ignored, str(tests)])
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


def test_the_harness_notices_a_failing_test(installed: Installed) -> None:
    """Canary: what fails in there fails here."""
    wrong = installed.checkout / "test_wrong.py"
    wrong.write_text("def test_that_two_is_three(): assert 2 == 3\n", "utf-8")
    assert installed.run(["-m", "pytest", "-q", str(wrong)]).returncode == 1
    wrong.unlink()
