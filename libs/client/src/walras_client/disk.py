"""The file in which a reader keeps the last quotas and the last floor it has seen.

Written to a file beside it, forced to disk and renamed over it: a crash leaves the old one or the
new one, never half of one.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from walras_client.ladder import Sighting, Source
from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet
from walras_client.snapshot_body import SheetUnreadableError, whole

FORMAT = 1
NOT_READABLE = "file_not_readable"
"""Fault of a file that is there and cannot be opened or read: what it holds is not known."""
DAMAGE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    RecursionError,  # nested deeper than the parser goes
    SheetUnreadableError,
)


def keep(held: Sighting, *, log: str, seen: list[Sighting]) -> Sighting:
    """Return what to keep: of the log ``log`` the newest quotas and the newest floor."""
    everything = [held, *seen]
    quotas = [s.quotas for s in everything if s.quotas and s.quotas.place.log_id == log]
    floors = [s.floor for s in everything if s.floor and s.floor.place.log_id == log]
    return Sighting(
        Source.DISK,
        max(quotas, key=lambda sheet: sheet.place.order(), default=None),
        max(floors, key=lambda sheet: sheet.place.order(), default=None),
    )


def read_file(path: Path) -> Sighting:
    """Return what the file holds; a missing or damaged one is an answer, not an exception."""
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise SheetUnreadableError(f"file of format {document['format']}")
        return Sighting(
            Source.DISK, _read_quotas(document["quotas"]), _read_floor(document["floor"])
        )
    except FileNotFoundError:
        return Sighting(Source.DISK)
    except OSError:
        return Sighting(Source.DISK, fault=NOT_READABLE)
    except DAMAGE:
        return Sighting(Source.DISK, fault=SheetUnreadableError.code)


def write_file(path: Path, kept: Sighting) -> bool:
    """Replace the file at once; False where the disk does not take it (the old one stays)."""
    document = {
        "format": FORMAT,
        "quotas": None if kept.quotas is None else _quotas(kept.quotas),
        "floor": None if kept.floor is None else _floor(kept.floor),
    }
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as stream:
            stream.write(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        return False
    return True


def _place(place: Place) -> dict[str, Any]:
    return {
        "log_id": place.log_id,
        "epoch": place.epoch,
        "cycle": place.cycle,
        "barrier": place.barrier,
        "published_at_ms": place.published_at_ms,
    }


def _quotas(sheet: QuotaSheet) -> dict[str, Any]:
    return {
        "place": _place(sheet.place),
        "teams": {
            team: {m: [q.allocated_macc, q.opportunistic_macc] for m, q in held.items()}
            for team, held in sheet.teams.items()
        },
        "supply": dict(sheet.supply),
        "granted_in": dict(sheet.granted_in),
    }


def _floor(sheet: FloorSheet) -> dict[str, Any]:
    return {
        "place": _place(sheet.place),
        "teams": {team: dict(held) for team, held in sheet.teams.items()},
    }


def _read_place(document: dict[str, Any]) -> Place:
    log_id = document["log_id"]
    if not isinstance(log_id, str):
        raise SheetUnreadableError(f"log id {log_id!r}")
    return Place(
        log_id,
        whole(document["epoch"]),
        whole(document["cycle"]),
        whole(document["barrier"]),
        whole(document["published_at_ms"]),
    )


def _read_quotas(document: dict[str, Any] | None) -> QuotaSheet | None:
    if document is None:
        return None
    return QuotaSheet(
        _read_place(document["place"]),
        {
            team: {m: Quota(whole(a), whole(o)) for m, (a, o) in held.items()}
            for team, held in document["teams"].items()
        },
        {market: whole(macc) for market, macc in document["supply"].items()},
        {team: whole(cycle) for team, cycle in document["granted_in"].items()},
    )


def _read_floor(document: dict[str, Any] | None) -> FloorSheet | None:
    if document is None:
        return None
    return FloorSheet(
        _read_place(document["place"]),
        {
            team: {market: whole(macc) for market, macc in held.items()}
            for team, held in document["teams"].items()
        },
    )
