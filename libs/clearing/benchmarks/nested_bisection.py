"""Compiles `nested_bisection.c` and calls it: the rival that the library is measured against."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import ABSENT, Column, MarketArrays, Numbers

SOURCE: Final = Path(__file__).with_name("nested_bisection.c")
FLAGS: Final = ("-O3", "-march=native", "-std=c11", "-Wall", "-Wextra", "-Werror")

_KEPT: list[TemporaryDirectory[str]] = []
"""Folders of loaded libraries; they go when the process ends."""


class RivalError(RuntimeError):
    """The rival could not be compiled or had no memory."""

    code = "rival_unavailable"
    retriable = False


def compiler() -> str | None:
    """Return the C compiler, or None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class NestedBisection:
    """The rival with one market loaded: grouped and sorted when made, solved on demand.

    Raises
    ------
    RivalError
        There is no compiler, it failed, or the memory does not suffice.
    """

    def __init__(self, market: MarketArrays) -> None:
        self._library = _library()
        self._market = market
        self._pools = len(market.own_supply_macc)
        self._book = self._library.rival_build(
            self._pools,
            len(market.bid_micro_per_hour),
            len(market.size_macc),
            _pointer(market.own_supply_macc),
            _pointer(market.pool_of_team),
            _pointer(market.bid_micro_per_hour),
            _pointer(market.team_of_job),
            _pointer(market.size_macc),
            _pointer(market.limit_micro),
        )
        if not self._book:
            raise RivalError("no memory for the market")

    def solve(self, *, narrowed: bool = False) -> tuple[int | None, Column]:
        """Return the reference price and the pool prices in µcr, `ABSENT` where there is none.

        `narrowed`: carry the brackets of the pool prices from one reference price to the next.
        """
        prices = np.empty(self._pools, np.int64)
        price = self._library.rival_solve(
            self._book,
            self._market.shared_supply_macc,
            self._market.reserve_price_micro,
            int(self._market.idle_own_supply == "lend"),
            int(narrowed),
            _pointer(prices),
        )
        return None if price == ABSENT else int(price), prices

    def change_team(self, team: int, bid_micro_per_hour: int, size: Column, limit: Column) -> None:
        """Replace the bid and all jobs of a team by as many others; sorts that team again."""
        self._library.rival_change_team(
            self._book, team, bid_micro_per_hour, _pointer(size), _pointer(limit)
        )

    def set_bids(self, bid_micro_per_hour: Column) -> None:
        """Replace the bids of all teams."""
        self._library.rival_set_bids(self._book, _pointer(bid_micro_per_hour))

    def close(self) -> None:
        """Free the market."""
        self._library.rival_free(self._book)
        self._book = None


@cache
def _library() -> ctypes.CDLL:
    command = compiler()
    if command is None:
        raise RivalError("no C compiler on this machine")
    folder = TemporaryDirectory(prefix="walras-rival-")
    _KEPT.append(folder)
    target = Path(folder.name) / "nested_bisection.so"
    done = subprocess.run(
        [command, *FLAGS, "-shared", "-fPIC", str(SOURCE), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RivalError(done.stderr.strip())
    library = ctypes.CDLL(str(target))
    library.rival_build.restype = ctypes.c_void_p
    library.rival_build.argtypes = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 6]
    library.rival_solve.restype = ctypes.c_int64
    library.rival_solve.argtypes = [
        *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_void_p),
    ]
    library.rival_change_team.restype = None
    library.rival_change_team.argtypes = [
        *(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    ]
    library.rival_set_bids.restype = None
    library.rival_set_bids.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.rival_free.restype = None
    library.rival_free.argtypes = [ctypes.c_void_p]
    return library


def _pointer(column: Column | Numbers | NDArray[np.float64]) -> int:
    if not column.flags.c_contiguous:
        raise ValueError("columns must be contiguous")
    return column.ctypes.data
