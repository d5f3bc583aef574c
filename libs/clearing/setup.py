"""Build of the exact clearing kernel.

`WALRAS_CLEARING_BUILD` selects the mode: unset is the release build; `checked` keeps bounds
checks and turns every C warning into an error. Cython's own warnings are errors in both.
"""

import hashlib
import os
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

HERE = Path(__file__).parent
KERNEL = Path("src") / "walras_clearing" / "_kernel.pyx"
MODE = os.environ.get("WALRAS_CLEARING_BUILD") or "release"
CHECKED = MODE == "checked"

Options.warning_errors = True
stamp = hashlib.sha256((HERE / KERNEL).read_bytes()).hexdigest()
extension = Extension(
    "walras_clearing._kernel",
    [str(KERNEL)],
    define_macros=[("WALRAS_BUILD_STAMP", f'"{stamp}"')],
    extra_compile_args=["-Wall", "-Wextra", "-Werror", "-O1"] if CHECKED else ["-O3", "-g0"],
)
setup(
    # A build of the other mode, or of an older source, must never count as up to date.
    options={"build_ext": {"force": True}},
    ext_modules=cythonize(  # type: ignore[no-untyped-call]
        [extension],
        build_dir=str(Path("build") / MODE),
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": CHECKED,
            # Every operand of a division is non-negative and every divisor positive.
            "cdivision": True,
        },
    ),
)
