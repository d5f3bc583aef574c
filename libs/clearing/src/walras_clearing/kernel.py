"""Loads the compiled modules, or says how to build them; there is no slower stand-in."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from walras_clearing.errors import KernelUnavailableError

MODULES: Final = ("_rows", "_demand", "_auction", "_proportion", "_settle", "_verify")

BUILD_HELP = """\
the compiled module {name} of walras_clearing could not be loaded: {reason}
found in {folder}: {found}
build it with a C compiler:
    in the workspace     uv sync --all-packages --reinstall-package walras-clearing
    in libs/clearing     python setup.py build_ext --inplace   (needs Cython and setuptools)"""


def _load(name: str) -> Any:
    try:
        return import_module(f"walras_clearing.{name}")
    except ImportError as error:
        folder = Path(__file__).parent
        found = ", ".join(sorted(path.name for path in folder.glob("_[a-z]*.*"))) or "nothing"
        message = BUILD_HELP.format(name=name, reason=error, folder=folder, found=found)
        raise KernelUnavailableError(message) from error


_loaded = {name: _load(name) for name in MODULES}

if TYPE_CHECKING:
    from walras_clearing._proportion import first_beyond, shared_out
    from walras_clearing._settle import Kernel
    from walras_clearing._verify import faults_of_jobs, read_demand
else:
    first_beyond = _loaded["_proportion"].first_beyond
    shared_out = _loaded["_proportion"].shared_out
    Kernel = _loaded["_settle"].Kernel
    faults_of_jobs = _loaded["_verify"].faults_of_jobs
    read_demand = _loaded["_verify"].read_demand

__all__ = [
    "BUILD_STAMPS",
    "MODULES",
    "Kernel",
    "faults_of_jobs",
    "first_beyond",
    "read_demand",
    "shared_out",
]

BUILD_STAMPS: Final[dict[str, str]] = {name: module.BUILD_STAMP for name, module in _loaded.items()}
"""Per compiled module the SHA-256 of all `.pyx`, `.pxd` and `.h` that it was compiled from."""
