"""Reading the snapshot's body: canonical JSON as the projector writes it."""

import json
from typing import Any

from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet
from walras_runtime.errors import WalrasError

FORMAT = 1


class SheetUnreadableError(WalrasError):
    """What a source holds is not a sheet that this build can read."""

    code = "unreadable_sheet"


def read_body(
    body: bytes, *, log_id: str, epoch: int, published_at_ms: int
) -> tuple[QuotaSheet, FloorSheet]:
    """Return the quotas and the floor that a snapshot names.

    Raises
    ------
    SheetUnreadableError
        It is of another format, or damaged.
    """
    try:
        document: dict[str, Any] = json.loads(body)
        if document["format"] != FORMAT:
            raise SheetUnreadableError(f"snapshot of format {document['format']}")
        place = Place(
            log_id, epoch, whole(document["cycle"]), whole(document["barrier"]), published_at_ms
        )
        quotas = QuotaSheet(
            place,
            {
                team: {
                    market: Quota(whole(part["allocated_macc"]), whole(part["opportunistic_macc"]))
                    for market, part in held["markets"].items()
                }
                for team, held in document["quotas"].items()
            },
            {
                market: whole(supply["shared_macc"])
                + sum(whole(macc) for macc in supply["own"].values())
                for market, supply in document["supply"].items()
            },
            {team: whole(held["cycle"]) for team, held in document["quotas"].items()},
        )
        floor = FloorSheet(
            place,
            {
                team: {market: whole(macc) for market, macc in markets.items()}
                for team, markets in document["floor"].items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SheetUnreadableError(f"{type(error).__name__}: {error}") from error
    return quotas, floor


def whole(value: Any) -> int:
    """Return a value that is a whole number, not negative.

    Raises
    ------
    ValueError
        It is not.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value
