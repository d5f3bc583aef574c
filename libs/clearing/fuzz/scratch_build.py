"""Builds the library in a mode that production never loads, in a copy: the tree stays as it is.

The copy has the layout of the checkout (``libs/clearing/…`` and the `conftest.py` above it), so
that the tests, and the fuzzer that they start, run in it unchanged.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
LIBRARY: Final = Path("libs") / "clearing"
LEFT_BEHIND: Final = ("build", "*.so", "*.c.html", "__pycache__", "*.egg-info", ".hypothesis")
NEEDS_THE_CHECKOUT: Final = "test_benchmarks_run.py"
"""Measures with the tools of the whole repository, which the copy has not."""
PYTEST_SETTINGS: Final = """\
[pytest]
addopts = --import-mode=importlib --strict-markers -m "not slow" -p no:cacheprovider -p no:asyncio
markers =
    slow: exhaustive runs
    timeout: seconds, where the plugin of that name is there
"""
"""Those of the checkout name plugins of other members, which a copy of the library has not."""


class BuildFailed(RuntimeError):  # noqa: N818 -- an outcome, told to whoever started the build
    """The build ended with an error; the message is its end."""


@dataclass(frozen=True, slots=True)
class ScratchBuild:
    """A built copy: the folder that stands for the checkout."""

    folder: Path

    @property
    def package(self) -> Path:
        """Folder of the importable package."""
        return self.folder / LIBRARY / "src" / "walras_clearing"

    @property
    def modules(self) -> list[Path]:
        """The compiled modules."""
        return sorted(self.package.glob("*.so"))

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return an environment in which the copy is imported instead of the checkout."""
        source = self.package.parent
        paths = os.pathsep.join((str(source), str(self.folder)))
        return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **extra}

    def run_tests(
        self, extra: Mapping[str, str], arguments: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the library's tests, without the slow ones, on the built copy.

        What goes to standard error is in the result; the rest is shown as it comes.
        """
        tests = self.folder / LIBRARY / "tests"
        ignored = tests / NEEDS_THE_CHECKOUT
        program = [sys.executable, "-m", "pytest", "-q", "-c", str(self.folder / "pytest.ini")]
        return subprocess.run(
            [*program, f"--ignore={ignored}", *arguments, str(tests)],
            cwd=self.folder,
            env=self.environment(extra),
            stderr=subprocess.PIPE,
            check=False,
        )


def built_copy(mode: str, folder: Path, *, compiler_flags: str = "") -> ScratchBuild:
    """Copy the library into an empty folder and build it there.

    Parameters
    ----------
    mode
        A value of `WALRAS_CLEARING_BUILD`.
    folder
        Takes the place of the checkout.
    compiler_flags
        Go behind those with which Python itself was compiled, and ahead of those of the mode.

    Raises
    ------
    BuildFailed
        Cython or the C compiler refused.
    """
    ignore = shutil.ignore_patterns(*LEFT_BEHIND)
    shutil.copytree(ROOT / LIBRARY, folder / LIBRARY, ignore=ignore, dirs_exist_ok=True)
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text(PYTEST_SETTINGS, "utf-8")
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=folder / LIBRARY,
        env={**os.environ, "WALRAS_CLEARING_BUILD": mode, "CFLAGS": compiler_flags},
        capture_output=True,
        text=True,
        check=False,
    )
    build = ScratchBuild(folder)
    if done.returncode != 0 or not build.modules:
        raise BuildFailed((done.stdout + done.stderr).strip()[-3_000:])
    return build
