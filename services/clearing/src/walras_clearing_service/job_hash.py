"""The lot that a job draws in a cycle: 64 bits of its key and the cycle (decision 12)."""

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.names import hash_of

Hashes = NDArray[np.uint64]

HASH_SPACE = 2**64
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def job_hash(key: str, cycle: int) -> int:
    """Return 64 bits that depend on the job and the cycle only.

    ``splitmix64(blake2b64(key) ^ splitmix64(cycle))``, with splitmix64 as in Steele, Lea and Flood,
    *Fast splittable pseudorandom number generators* (2014).
    """
    return _splitmix64(hash_of(key) ^ _splitmix64(cycle))


def job_hashes(key_hashes: Hashes, cycle: int) -> Hashes:
    """Return `job_hash` of jobs whose keys have these 64-bit hashes."""
    mixed = key_hashes ^ np.uint64(_splitmix64(cycle))
    mixed += np.uint64(_STEP)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _splitmix64(value: int) -> int:
    mixed = (value + _STEP) % HASH_SPACE
    mixed = (mixed ^ (mixed >> 30)) * _FIRST % HASH_SPACE
    mixed = (mixed ^ (mixed >> 27)) * _SECOND % HASH_SPACE
    return mixed ^ (mixed >> 31)
