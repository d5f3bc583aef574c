"""Errors of the clearing library: a stable code, whether a retry can help, and where."""

from typing import ClassVar

QUOTED_MAX = 60
"""Longest piece of foreign text that an error message repeats."""


class ClearingInputError(ValueError):
    """The market, instance or result does not meet the contract (design §4).

    Parameters
    ----------
    code
        Stable machine-readable reason, such as ``not_an_integer``.
    path
        JSON path of the offending value, such as ``$.teams[3].jobs[0].size_macc``.
    message
        Reason in words, one line.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, code: str, path: str, message: str) -> None:
        super().__init__(f"{path}: {message} [{code}]")
        self.code = code
        self.path = path
        self.message = message


class KernelUnavailableError(ImportError):
    """The compiled kernel is missing or cannot be loaded; there is no slower stand-in."""

    code: ClassVar[str] = "kernel_unavailable"
    retriable: ClassVar[bool] = False


class InvariantBroken(AssertionError):  # noqa: N818 -- the project-wide name of this family
    """The kernel contradicted itself: a defect of the library, never of its input."""

    code: ClassVar[str] = "invariant_broken"
    retriable: ClassVar[bool] = False
