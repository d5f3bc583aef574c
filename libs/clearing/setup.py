"""Build of the compiled modules.

`WALRAS_CLEARING_BUILD` selects the mode; Cython's own warnings are errors in all of them.

============  ================================================================================
unset         the release build
checked       bounds checks, and every warning of the C compiler is an error
sanitized     checked, with the address and undefined-behaviour sanitizers (`make asan`)
traced        every line tells the interpreter's tracer that it ran (`make cov-pyx`)
============  ================================================================================
"""

import hashlib
import os
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

HERE = Path(__file__).parent
PACKAGE = Path("src") / "walras_clearing"
MODULES = ("_rows", "_demand", "_auction", "_proportion", "_settle", "_verify")
MODE = os.environ.get("WALRAS_CLEARING_BUILD") or "release"
CHECKED = MODE in {"checked", "sanitized"}
# The C compiler sees that Cython's own code compares and casts; the rest is ours.
C_WARNINGS = ["-Wall", "-Wextra", "-Werror"]
FLAGS = {
    "release": ["-O3", "-g0"],
    "checked": [*C_WARNINGS, "-O1"],
    # Python compiles with -fwrapv, under which overflow of signed integers is defined and unseen.
    "sanitized": [
        *("-O1", "-g", "-fno-wrapv"),
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    ],
    "traced": ["-O1", "-g0"],
}
LINK_FLAGS = {"sanitized": ["-fsanitize=address,undefined"]}

Options.warning_errors = True


def source_stamp() -> str:
    """Return one hash of all sources of the compiled modules, by name."""
    body = hashlib.sha256()
    names = [path for path in (HERE / PACKAGE).iterdir() if path.suffix in {".pyx", ".pxd", ".h"}]
    for path in sorted(names, key=lambda path: path.name):
        body.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return body.hexdigest()


macros: list[tuple[str, str | None]] = [("WALRAS_BUILD_STAMP", f'"{source_stamp()}"')]
if MODE == "traced":
    macros.append(("CYTHON_TRACE_NOGIL", "1"))
extensions = [
    Extension(
        f"walras_clearing.{name}",
        [str(PACKAGE / f"{name}.pyx")],
        include_dirs=[str(PACKAGE)],
        define_macros=macros,
        extra_compile_args=FLAGS[MODE],
        extra_link_args=LINK_FLAGS.get(MODE, []),
    )
    for name in MODULES
]
setup(
    # A build of the other mode, or of an older source, must never count as up to date.
    options={"build_ext": {"force": True}},
    ext_modules=cythonize(  # type: ignore[no-untyped-call]
        extensions,
        build_dir=str(Path("build") / MODE),
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": CHECKED,
            # Every operand of a division is non-negative and every divisor positive.
            "cdivision": True,
            "linetrace": MODE == "traced",
        },
    ),
)
