"""Names as small numbers, for columns; a number says nothing about the order of arrival."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""Stands for "no name" in a column of numbers."""
HASH_BYTES = 8


def hash_of(text: str) -> int:
    """Return 64 bits of BLAKE2b of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=HASH_BYTES).digest(), "little")


class Names:
    """Names by number, in the order in which they came.

    Nothing that is decided may depend on a number: what is visible goes in the order of the names.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._hashes: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int:
        """Return the number of a name, a new one where it has none."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
            self._hashes.append(hash_of(name))
        return found

    def known(self, name: str) -> int:
        """Return the number of a name, or `NONE`."""
        return self._numbers.get(name, NONE)

    def sorted_numbers(self, numbers: Iterable[int]) -> list[int]:
        """Return numbers in the order of their names (UTF-8 bytes)."""
        # Python orders strings by code point, which is the order of their UTF-8 bytes.
        return sorted(numbers, key=self.names.__getitem__)

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of every name, and 0 at the end: what `NONE` finds there."""
        return np.array([*self._hashes, 0], dtype=np.uint64)


class TypeLists:
    """Lists of acceptable types by number, over the numbers of the markets that they name."""

    def __init__(self, markets: Names) -> None:
        self._markets = markets
        self._numbers: dict[tuple[str, ...], int] = {}
        self._hashes: list[int] = []
        self.lists: list[tuple[int, ...]] = []
        self._made: tuple[int, int] = (-1, -1)
        self._matrix = np.empty((0, 1), dtype=np.int32)
        self._member = np.empty((0, 0), dtype=np.bool_)
        # The list of a row that holds no job.
        self.number(())

    def number(self, types: tuple[str, ...]) -> int:
        """Return the number of a list, a new one where it has none."""
        found = self._numbers.get(types)
        if found is None:
            found = self._numbers[types] = len(self.lists)
            self.lists.append(tuple(self._markets.number(name) for name in types))
            self._hashes.append(hash_of("/".join(types)))
        return found

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of every list."""
        return np.array(self._hashes, dtype=np.uint64)

    def matrix(self) -> NDArray[np.int32]:
        """Return one row a list: its markets in order, then `NONE`."""
        self._refresh()
        return self._matrix

    def members(self) -> NDArray[np.bool_]:
        """Return by list and market whether the market is in the list."""
        self._refresh()
        return self._member

    def _refresh(self) -> None:
        made = (len(self.lists), len(self._markets))
        if made == self._made:
            return
        width = max(1, *map(len, self.lists))
        self._matrix = np.full((made[0], width), NONE, dtype=np.int32)
        self._member = np.zeros(made, dtype=np.bool_)
        for row, markets in enumerate(self.lists):
            self._matrix[row, : len(markets)] = markets
            self._member[row, list(markets)] = True
        self._made = made
