"""Loads the compiled kernel, or says how to build it; there is no slower stand-in."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walras_clearing.errors import KernelUnavailableError

BUILD_HELP = """\
the compiled kernel of walras_clearing could not be loaded: {reason}
found in {folder}: {found}
build it with a C compiler:
    in the workspace     uv sync --all-packages --reinstall-package walras-clearing
    in libs/clearing     python setup.py build_ext --inplace   (needs Cython and setuptools)"""


def _load() -> Any:
    try:
        return import_module("walras_clearing._kernel")
    except ImportError as error:
        folder = Path(__file__).parent
        found = ", ".join(sorted(path.name for path in folder.glob("_kernel*"))) or "no kernel"
        message = BUILD_HELP.format(reason=error, folder=folder, found=found)
        raise KernelUnavailableError(message) from error


if TYPE_CHECKING:
    import walras_clearing._kernel as kernel
else:
    kernel = _load()

__all__ = ["BUILD_STAMP", "kernel"]

BUILD_STAMP: str = kernel.BUILD_STAMP
"""SHA-256 of the `.pyx` that the loaded kernel was compiled from."""
