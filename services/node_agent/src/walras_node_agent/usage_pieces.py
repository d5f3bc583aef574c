"""Where usage is cut: at multiples of 5 minutes, every 60 s, and where something changes."""

from collections.abc import Sequence
from typing import Final

from walras_contracts.quantities import SETTLEMENT_MS

USAGE_INTERVAL_MS: Final = 60_000
"""Longest usage interval (design §6)."""

Piece = tuple[int, int]


def full_piece_end_ms(start_ms: int) -> int:
    """Return where a usage interval that begins then ends at the latest."""
    boundary_ms = start_ms - start_ms % SETTLEMENT_MS + SETTLEMENT_MS
    return min(start_ms + USAGE_INTERVAL_MS, boundary_ms)


def pieces(start_ms: int, end_ms: int) -> list[Piece]:
    """Cut [start, end) into usage intervals: at multiples of 5 min, and every 60 s at the most."""
    cut: list[Piece] = []
    while start_ms < end_ms:
        piece_end_ms = min(end_ms, full_piece_end_ms(start_ms))
        cut.append((start_ms, piece_end_ms))
        start_ms = piece_end_ms
    return cut


def split(whole: Sequence[Piece], at_ms: int) -> list[Piece]:
    """Cut the piece that an instant lies inside of, so that one begins there."""
    cut: list[Piece] = []
    for start_ms, end_ms in whole:
        if start_ms < at_ms < end_ms:
            cut += [(start_ms, at_ms), (at_ms, end_ms)]
        else:
            cut.append((start_ms, end_ms))
    return cut
