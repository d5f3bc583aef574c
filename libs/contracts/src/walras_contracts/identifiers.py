"""Identifiers and the keys built from them; the partition of a key."""

import hashlib
from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
JOB_KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"

Id = Annotated[str, StringConstraints(strict=True, pattern=ID_PATTERN)]
"""A name of a team, pool, job, node, market or lease: no slash, no tilde, at most 63 characters."""
JobKey = Annotated[str, StringConstraints(strict=True, pattern=JOB_KEY_PATTERN)]
"""``team/job``: see :func:`job_key`."""
EventId = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]
RecordedId = Annotated[str, StringConstraints(strict=True, max_length=200)]
"""Id of an event as received: empty where there was none."""
Text = Annotated[str, StringConstraints(strict=True, max_length=500)]


def job_key(team: str, job: str) -> str:
    """Record key of a job: ``team/job``."""
    return f"{team}/{job}"


def lease_part_key(lease: str, node: str) -> str:
    """Record key of the part of a lease on one node: ``lease/node``."""
    return f"{lease}/{node}"


def digest_of(*parts: str) -> str:
    """Return 32 hex digits that depend on the parts and their borders only.

    Deterministic ids are built with it, so that a replay yields the same id.
    """
    return digest_of_bordered(b"".join([_kept_bordered(part) for part in parts]))


def digest_of_bordered(parts: bytes) -> str:
    """Return what :func:`digest_of` does, of parts that are :func:`bordered` and joined."""
    return hashlib.sha256(parts).hexdigest()[:32]


def bordered(part: str) -> bytes:
    """Return a part behind its length."""
    body = part.encode()
    return len(body).to_bytes(4, "big") + body


_kept_bordered = lru_cache(1 << 12)(bordered)
"""The same few parts come again and again."""


def recorded(text: str, length: int) -> str:
    """Return the text fit for an event: at most ``length`` characters, valid Unicode."""
    return text[:length].encode("utf-8", "replace").decode("utf-8")


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (seed 0x9747b28c), as an unsigned 32-bit integer."""
    mask = 0xFFFFFFFF
    mix = 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = (word * mix) & mask
        word ^= word >> 24
        word = (word * mix) & mask
        value = ((value * mix) & mask) ^ word
    rest = data[whole:]
    if rest:
        value ^= int.from_bytes(rest, "little")
        value = (value * mix) & mask
    value ^= value >> 13
    value = (value * mix) & mask
    return value ^ (value >> 15)


def partition_of(partition_key: str, partitions: int) -> int:
    """Partition of a partition key: the same for every producer, whatever its metadata says."""
    return (murmur2(partition_key.encode()) & 0x7FFFFFFF) % partitions
