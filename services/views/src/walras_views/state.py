"""The live tables. Each key is overwritten by the record that carries it and never added to."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]
CycleKey = tuple[str, int]
"""Market and cycle."""
Window = tuple[int, int]
"""Half-open interval of market time, ms."""


@dataclass(slots=True)
class Tables:
    """All that the board is made from; the mappings may be Faust tables or plain dicts.

    ``windows`` is keyed as Faust keys a windowed table: the key and the window it falls into.
    """

    cycles: MutableMapping[CycleKey, Document] = field(default_factory=dict)
    prices: MutableMapping[CycleKey, Document] = field(default_factory=dict)
    wallets: MutableMapping[str, Document] = field(default_factory=dict)
    quotas: MutableMapping[str, Document] = field(default_factory=dict)
    windows: MutableMapping[tuple[CycleKey, Window], Document] = field(default_factory=dict)
    history_cycles: int = 1_440
    window_ms: int = 600_000
    last_cycle: dict[str, int] = field(default_factory=dict)
    """Newest cycle seen per market; what is older than the history is let go by it."""
