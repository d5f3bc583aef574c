"""Instances of `walras clear` as JSON documents: what the mutations start from."""

import json
from random import Random
from typing import Any

from walras_clearing.model import Market
from walras_clearing.testing import draw_market


def document_of(market: Market) -> dict[str, Any]:
    """Return a market as the document that `parse_instance` reads."""
    return {
        "shared_supply_macc": market.shared_supply_macc,
        "reserve_price_micro": market.reserve_price_micro,
        "idle_own_supply": market.idle_own_supply,
        "pools": [
            {"pool": p.pool, "own_supply_macc": p.own_supply_macc, "weight": p.weight}
            for p in market.pools
        ],
        "teams": [
            {
                "team": t.team,
                "pool": t.pool,
                "bid_micro_per_hour": t.bid_micro_per_hour,
                "jobs": [
                    {"job": j.job, "size_macc": j.size_macc, "limit_micro": j.limit_micro}
                    for j in t.jobs
                ],
            }
            for t in market.teams
        ],
    }


def drawn_document(rng: Random) -> dict[str, Any]:
    """Draw a valid document, optional fields now and then left out."""
    document = document_of(draw_market(rng.randint))
    for name in ("reserve_price_micro", "idle_own_supply"):
        if rng.random() < 0.2:
            del document[name]
    for pool in document["pools"]:
        if rng.random() < 0.2:
            del pool["weight"]
    return document


def encoded(document: Any, rng: Random) -> bytes:
    """Write a document as UTF-8, in one of the ways in which JSON may be written."""
    text = json.dumps(
        document,
        ensure_ascii=rng.random() < 0.7,
        indent=rng.choice((None, None, 0, 2)),
        separators=rng.choice((None, (",", ":"))),
    )
    return text.encode("utf-8", "surrogatepass")
