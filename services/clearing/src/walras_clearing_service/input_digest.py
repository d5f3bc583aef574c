"""The digest of a cycle's input: a function of its content, of no number, order or process.

A job's row is hashed with BLAKE2b over its key and fixed words; the jobs together are the sum of
their rows' hashes modulo 2^128, which a change of some rows updates without the others. Such a sum
tells two inputs apart that differ by accident or by error, whatever they are. It does not resist
somebody who may choose very many rows in order to make two inputs collide (generalised birthday
attack on a sum); nobody gains by that here, since the digest is compared between runs of one log.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.model import (
    BidderParameters,
    LastClearing,
    MarketInput,
    PoolInput,
    StuckHead,
)

DIGEST_BYTES = 16
SUM_SPACE = 2**128
WORDS = 10
"""Words of a job's row, see :func:`row_digest`."""
WORD_BYTES = 8


def row_digest(key: str, words: Sequence[int]) -> int:
    """Return the hash of one job.

    Parameters
    ----------
    words
        Hash of its list of types, size (macc), limit (µcr; -1 for none), flags (1 gang, 2 draining,
        4 refused, 8 runs for nothing), minimum run (ms), position, hash of the market that it runs
        in (0: none), when it started (ms; -1: never), hash of the market that it is assigned to (0:
        none), cycle since which it has no place (-1: it has one); each modulo 2^64.
    """
    assert len(words) == WORDS
    body = b"".join([(word % 2**64).to_bytes(WORD_BYTES, "little") for word in words])
    return int.from_bytes(_row(key, body), "little")


def row_digests(keys: Sequence[str], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return `row_digest` of many jobs, as (low, high) halves; ``words`` has one row a job."""
    body = np.ascontiguousarray(words, dtype="<u8").tobytes()
    size = WORDS * WORD_BYTES
    rows = [_row(key, body[n * size : (n + 1) * size]) for n, key in enumerate(keys)]
    return np.frombuffer(b"".join(rows), dtype="<u8").reshape(len(keys), 2)


def sum_of(halves: NDArray[np.uint64]) -> int:
    """Return the sum of 128-bit numbers given as (low, high) halves, modulo 2^128."""
    total = 0
    for place in range(2):
        half = halves[:, place]
        # Sums of 32-bit pieces stay exact up to 2^32 rows.
        low = int((half & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
        high = int((half >> np.uint64(32)).sum(dtype=np.uint64))
        total += (low + (high << 32)) << (64 * place)
    return total % SUM_SPACE


def _row(key: str, body: bytes) -> bytes:
    # The words have a fixed length, so the border between them and the key is known.
    return blake2b(body + key.encode(), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class TeamColumns:
    """The teams with jobs in a cycle, by id; all columns of equal length."""

    teams: Sequence[str]
    pools: Sequence[str]
    income_micro_per_hour: Sequence[int]
    leverage_ppm: Sequence[int]
    wallet_micro: Sequence[int]
    exhausted: Sequence[bool]


def cycle_digest(
    head: tuple[int, int, int, int],
    parameters: BidderParameters,
    pools: Sequence[PoolInput],
    markets: Sequence[MarketInput],
    last: Mapping[str, LastClearing],
    *,
    stuck: Mapping[str, Sequence[StuckHead]],
    teams: TeamColumns,
    jobs: tuple[int, int],
) -> str:
    """Return 32 hex digits that change with anything the cycle depends on.

    Parameters
    ----------
    head
        Cycle, barrier, market time, settlement barrier.
    jobs
        How many jobs there are, and the sum of their hashes.
    """
    body = blake2b(digest_size=DIGEST_BYTES)
    body.update(repr((head, parameters, tuple(pools))).encode())
    for market in markets:
        body.update(repr(_plain(market)).encode())
    for name in sorted(last):
        body.update(repr((name, *_plain_clearing(last[name]))).encode())
    for name in sorted(stuck):
        body.update(repr((name, tuple(stuck[name]))).encode())
    for texts in (teams.teams, teams.pools):
        # Ids hold no line break.
        body.update("\n".join((*texts, "")).encode() + b"\n")
    columns: tuple[Iterable[int], ...] = (
        *(teams.income_micro_per_hour, teams.leverage_ppm, teams.wallet_micro),
        map(int, teams.exhausted),
    )
    for column in columns:
        body.update(np.fromiter(column, dtype="<i8", count=len(teams.teams)).tobytes())
    count, total = jobs
    body.update(count.to_bytes(8, "little") + total.to_bytes(16, "little"))
    return body.hexdigest()


def _plain(market: MarketInput) -> tuple[object, ...]:
    return (
        market.market,
        market.shared_macc,
        sorted(market.own_macc.items()),
        market.gate.value,
        market.margin.value,
        market.idle_own_supply.value,
        market.reserve_price_micro,
        market.rounding.value,
    )


def _plain_clearing(last: LastClearing) -> tuple[object, ...]:
    return (
        last.cycle,
        last.reference_price_micro,
        sorted(last.pool_prices_micro.items()),
        last.unsold_macc,
        sorted(last.idle_own_macc.items()),
    )
