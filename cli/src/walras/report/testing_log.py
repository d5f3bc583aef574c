"""Writes small logs record by record; for tests only."""

import json
from typing import Any

from walras.report.records import LogRecord

START = 1_616_544_000_000
S = 1000
Log = dict[str, list[LogRecord]]


class LogMaker:
    """Appends records with offsets, as a broker would."""

    def __init__(self) -> None:
        self.topics: Log = {}

    def put(
        self,
        topic: str,
        kind: str,
        key: str,
        body: dict[str, Any] | bytes | None,
        *,
        partition: int = 0,
        stamp_ms: int = 0,
        headers: dict[str, bytes] | None = None,
    ) -> None:
        """Append a record."""
        records = self.topics.setdefault(topic, [])
        value = json.dumps(body).encode() if isinstance(body, dict) else body
        offset = sum(record.partition == partition for record in records)
        records.append(
            LogRecord(topic, partition, offset, stamp_ms, key, kind, value, headers or {})
        )

    def barrier(
        self, topic: str, number: int, stamp_ms: int, partition: int = 0, **headers: bytes
    ) -> None:
        """Append a barrier."""
        self.put(
            topic,
            "walras.barrier.v1",
            f"~barrier/{number}",
            {"barrier": number, "market_time_ms": START + number * 60 * S},
            partition=partition,
            stamp_ms=stamp_ms,
            headers=headers,
        )
