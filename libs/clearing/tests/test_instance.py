"""The JSON forms: exact on the way in, canonical on the way out."""

import json
import random
from typing import Any

import pytest

from walras_clearing import ClearingInputError, clear
from walras_clearing.instance import (
    market_to_json,
    parse_instance,
    parse_result,
    result_to_json,
)
from walras_clearing.testing import draw_market

GOOD: dict[str, Any] = {
    "shared_supply_macc": 8000,
    "reserve_price_micro": 2,
    "idle_own_supply": "lend",
    "pools": [{"pool": "p", "own_supply_macc": 1000, "weight": 3}],
    "teams": [
        {
            "team": "t",
            "pool": "p",
            "bid_micro_per_hour": 70,
            "jobs": [{"job": "j", "size_macc": 4000, "limit_micro": None}],
        }
    ],
}


def altered(path: tuple[str | int, ...], value: Any) -> str:
    document = json.loads(json.dumps(GOOD))
    target = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return json.dumps(document)


def without(path: tuple[str | int, ...]) -> str:
    document = json.loads(json.dumps(GOOD))
    target = document
    for step in path[:-1]:
        target = target[step]
    del target[path[-1]]
    return json.dumps(document)


TEXT = json.dumps(GOOD)
JOB = ("teams", 0, "jobs", 0)
BAD: dict[str, tuple[str | bytes, str, str]] = {
    "unknown field": (altered(("colour",), 1), "unknown_field", '$["colour"]'),
    "unknown field in a job": (altered((*JOB, "x"), 1), "unknown_field", '$.teams[0].jobs[0]["x"]'),
    "unknown field with a line break": (altered(("a\nb",), 1), "unknown_field", '$["a\\nb"]'),
    "missing field": (without(("shared_supply_macc",)), "missing_field", "$.shared_supply_macc"),
    "missing limit": (
        without((*JOB, "limit_micro")),
        "missing_field",
        "$.teams[0].jobs[0].limit_micro",
    ),
    "missing jobs": (without(("teams", 0, "jobs")), "missing_field", "$.teams[0].jobs"),
    "float": (altered(("shared_supply_macc",), 8000.0), "not_an_integer", "$.shared_supply_macc"),
    "exponent": (TEXT.replace("8000", "8e3"), "not_an_integer", "$.shared_supply_macc"),
    "bool": (altered(("reserve_price_micro",), True), "not_an_integer", "$.reserve_price_micro"),
    "string number": (
        altered(("teams", 0, "bid_micro_per_hour"), "70"),
        "not_an_integer",
        "$.teams[0].bid_micro_per_hour",
    ),
    "NaN": (TEXT.replace("4000", "NaN"), "not_an_integer", "$.teams[0].jobs[0].size_macc"),
    "Infinity": (
        TEXT.replace("null", "Infinity"),
        "not_an_integer",
        "$.teams[0].jobs[0].limit_micro",
    ),
    "null size": (
        altered((*JOB, "size_macc"), None),
        "not_an_integer",
        "$.teams[0].jobs[0].size_macc",
    ),
    "null weight": (
        altered(("pools", 0, "weight"), None),
        "not_an_integer",
        "$.pools[0].weight",
    ),
    "huge integer": (
        TEXT.replace("8000", "9" * 6000),
        "above_maximum",
        "$.shared_supply_macc",
    ),
    "large integer": (TEXT.replace("8000", "9" * 30), "above_maximum", "$.shared_supply_macc"),
    "negative": (altered(("shared_supply_macc",), -1), "negative", "$.shared_supply_macc"),
    "duplicate key": (
        TEXT.replace('"weight": 3', '"weight": 3, "weight": 3'),
        "duplicate_key",
        '$.pools[0]["weight"]',
    ),
    "duplicate key at the top": (
        TEXT.replace('"shared_supply_macc"', '"pools": [], "shared_supply_macc"', 1),
        "duplicate_key",
        '$["pools"]',
    ),
    "duplicate pool": (
        altered(("pools",), [GOOD["pools"][0]] * 2),
        "duplicate_id",
        "$.pools[1].pool",
    ),
    "unknown pool": (altered(("teams", 0, "pool"), "q" * 900), "unknown_pool", "$.teams[0].pool"),
    "policy": (altered(("idle_own_supply",), "burn"), "unknown_policy", "$.idle_own_supply"),
    "policy of another type": (
        altered(("idle_own_supply",), 1),
        "not_a_string",
        "$.idle_own_supply",
    ),
    "array for object": ("[]", "not_an_object", "$"),
    "object for array": (altered(("pools",), {}), "not_an_array", "$.pools"),
    "deep nesting": ("[" * 100_000, "too_deep", "$"),
    "deep field": (
        TEXT.replace("8000", "[" * 200 + "]" * 200),
        "not_an_integer",
        "$.shared_supply_macc",
    ),
    "nothing": ("", "not_json", "$"),
    "half": (TEXT[:-1], "not_json", "$"),
    "two documents": (TEXT + TEXT, "not_json", "$"),
    "broken UTF-8": (b'{"\xff": 1}', "not_utf8", "$"),
    "half a surrogate": (
        altered(("teams", 0, "team"), "\ud800"),
        "invalid_id",
        "$.teams[0].team",
    ),
    "margin is no part of the format": (
        altered(("margin",), "pro_rata"),
        "unknown_field",
        '$["margin"]',
    ),
}


@pytest.mark.parametrize(("data", "code", "path"), BAD.values(), ids=BAD.keys())
def test_what_is_not_exactly_the_format_is_refused_with_path_and_reason(
    data: str | bytes, code: str, path: str
) -> None:
    with pytest.raises(ClearingInputError) as caught:
        parse_instance(data)
    assert (caught.value.code, caught.value.path) == (code, path)
    text = str(caught.value)
    assert text.startswith(path)
    assert "\n" not in text
    assert len(text) < 400
    text.encode()


def test_what_may_be_left_out_has_the_documented_defaults() -> None:
    document = {
        "shared_supply_macc": 5,
        "pools": [{"pool": "p", "own_supply_macc": 0}],
        "teams": [],
    }
    market = parse_instance(json.dumps(document).encode())
    assert market.reserve_price_micro == 0
    assert market.idle_own_supply == "keep"
    assert market.margin == "pro_rata"
    assert market.pools[0].weight == 0
    assert parse_instance(json.dumps(document), margin="strict_order").margin == "strict_order"


@pytest.mark.parametrize("seed", range(100))
def test_markets_and_results_survive_the_round_trip(seed: int) -> None:
    market = draw_market(random.Random(seed).randint)
    assert parse_instance(market_to_json(market), margin=market.margin) == market
    result = clear(market)
    text = result_to_json(result)
    assert parse_result(text) == result
    assert result_to_json(parse_result(text)) == text
    assert "\n" not in text


def test_a_result_has_the_published_field_names() -> None:
    result = json.loads(result_to_json(clear(parse_instance(TEXT))))
    assert list(result) == ["reference_price_micro", "pools", "teams", "certificate"]
    assert set(result["pools"]["p"]) == {"price_micro", "purchased_macc", "allocated_macc"}
    assert set(result["teams"]["t"]) == {"allocated_macc", "opportunistic_macc"}


def test_ids_stand_in_the_order_of_their_utf8_bytes() -> None:
    names = ["z", "é", "a", "\U0001f600", "\uffee", "Z"]
    document = {
        "shared_supply_macc": 5,
        "pools": [{"pool": name, "own_supply_macc": 0} for name in names],
        "teams": [
            {"team": name, "pool": name, "bid_micro_per_hour": 0, "jobs": []} for name in names
        ],
    }
    result = clear(parse_instance(json.dumps(document)))
    assert list(result.pools) == sorted(names, key=str.encode)
    assert list(json.loads(result_to_json(result))["teams"]) == sorted(names, key=str.encode)


RESULT = {
    "reference_price_micro": 1,
    "pools": {"p": {"price_micro": 1, "purchased_macc": 1, "allocated_macc": 1}},
    "teams": {},
    "certificate": {"pool_prices_below_micro": None, "surplus_nano_per_hour": {"p": 0}},
}
BAD_RESULTS = {
    "float": ('"purchased_macc": 1', '"purchased_macc": 1.0', '$.pools["p"].purchased_macc'),
    "missing": (', "allocated_macc": 1', "", '$.pools["p"].allocated_macc'),
    "unknown": ('"teams": {}', '"teams": {}, "x": 1', '$["x"]'),
    "duplicate": ('"teams": {}', '"teams": {"t": 1, "t": 1}', '$.teams["t"]'),
    "surplus": ('{"p": 0}', '{"p": "0"}', '$.certificate.surplus_nano_per_hour["p"]'),
    "no certificate": ('"certificate": {', '"certificate": 3, "c": {', '$["c"]'),
}


@pytest.mark.parametrize(("old", "new", "path"), BAD_RESULTS.values(), ids=BAD_RESULTS.keys())
def test_a_result_is_read_as_strictly(old: str, new: str, path: str) -> None:
    text = json.dumps(RESULT)
    assert parse_result(text).reference_price_micro == 1
    assert old in text
    with pytest.raises(ClearingInputError) as caught:
        parse_result(text.replace(old, new))
    assert caught.value.path == path
