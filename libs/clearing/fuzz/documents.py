"""Instances of `walras clear` as JSON documents: what the mutations start from."""

import json
from random import Random
from typing import Any

from walras_clearing.instance import market_to_json
from walras_clearing.model import Market
from walras_clearing.testing import draw_market


def document_of(market: Market) -> dict[str, Any]:
    """Return a market as the document that `parse_instance` reads."""
    document: dict[str, Any] = json.loads(market_to_json(market))
    return document


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
