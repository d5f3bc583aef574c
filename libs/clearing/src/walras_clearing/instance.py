"""The JSON forms of a market and of a result: strict on the way in, canonical on the way out.

A market (`?` marks what may be left out)::

    {"shared_supply_macc", "reserve_price_micro"?, "idle_own_supply": "keep" | "lend"?,
     "pools": [{"pool", "own_supply_macc", "weight"?}],
     "teams": [{"team", "pool", "bid_micro_per_hour",
                "jobs": [{"job", "size_macc", "limit_micro": integer | null}]}]}

A result::

    {"reference_price_micro": integer | null,
     "pools": {id: {"price_micro": integer | null, "purchased_macc", "allocated_macc"}},
     "teams": {id: {"allocated_macc", "opportunistic_macc"}},
     "certificate": {"pool_prices_below_micro": {id: integer} | null,
                     "surplus_nano_per_hour": {id: integer}}}
"""

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from walras_clearing.errors import ClearingInputError
from walras_clearing.model import (
    Certificate,
    ClearingResult,
    IdleOwnSupply,
    Job,
    Margin,
    Market,
    Pool,
    PoolResult,
    Team,
    TeamResult,
)
from walras_clearing.validate import quoted, validate

INTEGER_DIGITS: Final = 40
"""Longer numbers are refused unread: converting them takes quadratic time."""

T = TypeVar("T")


class _Refused:
    """A JSON value that no field accepts, kept until its path is known."""

    def __init__(self, code: str, reason: str, key: str | None = None) -> None:
        self.code = code
        self.reason = reason
        self.key = key


def parse_instance(data: bytes | str, *, margin: Margin = "pro_rata") -> Market:
    """Read a market from JSON.

    Parameters
    ----------
    data
        UTF-8 bytes or text.
    margin
        The margin policy; the format does not carry it.

    Raises
    ------
    ClearingInputError
        For the first thing that is not exactly the format or not within the ranges of design §4.
    """
    needed = ("shared_supply_macc", "pools", "teams")
    fields = fields_of("$", document_of(data), needed, ("reserve_price_micro", "idle_own_supply"))
    policy = string_of("$.idle_own_supply", fields.get("idle_own_supply", "keep"))
    if policy not in ("keep", "lend"):
        message = f"must be keep or lend, was {quoted(policy)}"
        raise ClearingInputError("unknown_policy", "$.idle_own_supply", message)
    idle: IdleOwnSupply = "lend" if policy == "lend" else "keep"
    market = Market(
        shared_supply_macc=integer_of("$.shared_supply_macc", fields["shared_supply_macc"]),
        pools=_list("$.pools", fields["pools"], _pool),
        teams=_list("$.teams", fields["teams"], _team),
        reserve_price_micro=integer_of(
            "$.reserve_price_micro", fields.get("reserve_price_micro", 0)
        ),
        idle_own_supply=idle,
        margin=margin,
    )
    validate(market)
    return market


def parse_result(data: bytes | str) -> ClearingResult:
    """Read a result from JSON; its figures may be wrong, its form may not.

    Raises
    ------
    ClearingInputError
        For the first thing that is not exactly the format.
    """
    needed = ("reference_price_micro", "pools", "teams", "certificate")
    fields = fields_of("$", document_of(data), needed)
    price = optional_integer_of("$.reference_price_micro", fields["reference_price_micro"])
    names = ("pool_prices_below_micro", "surplus_nano_per_hour")
    certificate = fields_of("$.certificate", fields["certificate"], names)
    below = certificate["pool_prices_below_micro"]
    path = "$.certificate.pool_prices_below_micro"
    return ClearingResult(
        reference_price_micro=price,
        pools=_mapping("$.pools", fields["pools"], _pool_result),
        teams=_mapping("$.teams", fields["teams"], _team_result),
        certificate=Certificate(None if below is None else _mapping(path, below, integer_of)),
        surplus_nano_per_hour=_mapping(
            "$.certificate.surplus_nano_per_hour", certificate["surplus_nano_per_hour"], integer_of
        ),
    )


def result_to_json(result: ClearingResult) -> str:
    """One line of ASCII JSON, equal for equal results byte for byte."""
    below = result.certificate.pool_prices_below_micro
    document = {
        "reference_price_micro": result.reference_price_micro,
        "pools": {
            name: {
                "price_micro": pool.price_micro,
                "purchased_macc": pool.purchased_macc,
                "allocated_macc": pool.allocated_macc,
            }
            for name, pool in _by_id(result.pools.items())
        },
        "teams": {
            name: {
                "allocated_macc": team.allocated_macc,
                "opportunistic_macc": team.opportunistic_macc,
            }
            for name, team in _by_id(result.teams.items())
        },
        "certificate": {
            "pool_prices_below_micro": None if below is None else dict(_by_id(below.items())),
            "surplus_nano_per_hour": dict(_by_id(result.surplus_nano_per_hour.items())),
        },
    }
    return json.dumps(document, separators=(",", ":"))


def market_to_json(market: Market) -> str:
    """One line of ASCII JSON that `parse_instance` reads back (but for the margin policy)."""
    document = {
        "shared_supply_macc": market.shared_supply_macc,
        "reserve_price_micro": market.reserve_price_micro,
        "idle_own_supply": market.idle_own_supply,
        "pools": [
            {"pool": pool.pool, "own_supply_macc": pool.own_supply_macc, "weight": pool.weight}
            for pool in market.pools
        ],
        "teams": [
            {
                "team": team.team,
                "pool": team.pool,
                "bid_micro_per_hour": team.bid_micro_per_hour,
                "jobs": [
                    {"job": job.job, "size_macc": job.size_macc, "limit_micro": job.limit_micro}
                    for job in team.jobs
                ],
            }
            for team in market.teams
        ],
    }
    return json.dumps(document, separators=(",", ":"))


def _by_id(items: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    return sorted(items, key=lambda item: item[0].encode())


def _pool(path: str, value: object) -> Pool:
    fields = fields_of(path, value, ("pool", "own_supply_macc"), ("weight",))
    return Pool(
        string_of(f"{path}.pool", fields["pool"]),
        integer_of(f"{path}.own_supply_macc", fields["own_supply_macc"]),
        integer_of(f"{path}.weight", fields.get("weight", 0)),
    )


def _team(path: str, value: object) -> Team:
    fields = fields_of(path, value, ("team", "pool", "bid_micro_per_hour", "jobs"))
    return Team(
        string_of(f"{path}.team", fields["team"]),
        string_of(f"{path}.pool", fields["pool"]),
        integer_of(f"{path}.bid_micro_per_hour", fields["bid_micro_per_hour"]),
        _list(f"{path}.jobs", fields["jobs"], _job),
    )


def _job(path: str, value: object) -> Job:
    fields = fields_of(path, value, ("job", "size_macc", "limit_micro"))
    return Job(
        string_of(f"{path}.job", fields["job"]),
        integer_of(f"{path}.size_macc", fields["size_macc"]),
        optional_integer_of(f"{path}.limit_micro", fields["limit_micro"]),
    )


def _pool_result(path: str, value: object) -> PoolResult:
    fields = fields_of(path, value, ("price_micro", "purchased_macc", "allocated_macc"))
    return PoolResult(
        optional_integer_of(f"{path}.price_micro", fields["price_micro"]),
        integer_of(f"{path}.purchased_macc", fields["purchased_macc"]),
        integer_of(f"{path}.allocated_macc", fields["allocated_macc"]),
    )


def _team_result(path: str, value: object) -> TeamResult:
    fields = fields_of(path, value, ("allocated_macc", "opportunistic_macc"))
    return TeamResult(
        integer_of(f"{path}.allocated_macc", fields["allocated_macc"]),
        integer_of(f"{path}.opportunistic_macc", fields["opportunistic_macc"]),
    )


def document_of(data: bytes | str) -> object:
    """Read a JSON document, whose values the functions below take out one by one.

    Raises
    ------
    ClearingInputError
        `not_utf8`, `not_json` or `too_deep`.
    """
    if isinstance(data, bytes):
        try:
            data = data.decode()
        except UnicodeDecodeError as error:
            message = f"is not UTF-8 (byte {error.start})"
            raise ClearingInputError("not_utf8", "$", message) from error
    try:
        document: object = json.loads(
            data,
            parse_int=_read_integer,
            parse_float=lambda text: _Refused("not_an_integer", f"{quoted(text)} is a float"),
            parse_constant=lambda text: _Refused("not_an_integer", f"{text} is not a number"),
            object_pairs_hook=_read_object,
        )
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ClearingInputError("not_json", "$", message) from error
    except RecursionError as error:
        raise ClearingInputError("too_deep", "$", "is nested too deeply") from error
    return document


def _read_integer(text: str) -> int | _Refused:
    if len(text) > INTEGER_DIGITS:
        return _Refused("above_maximum", f"an integer of {len(text)} characters is out of range")
    return int(text)


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Refused:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                return _Refused("duplicate_key", "the key occurs twice", key)
            seen.add(key)
    return document


def _refuse(path: str, value: object, code: str, wanted: str) -> ClearingInputError:
    """Build the error for a value of the wrong kind."""
    if isinstance(value, _Refused):
        where = path if value.key is None else f"{path}[{quoted(value.key)}]"
        return ClearingInputError(value.code, where, value.reason)
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
    }
    found = "null" if value is None else kinds[type(value)]
    return ClearingInputError(code, path, f"must be {wanted}, was {found}")


def fields_of(
    path: str, value: object, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the fields of an object at a path that has those needed, and no unknown ones."""
    if type(value) is not dict:
        raise _refuse(path, value, "not_an_object", "an object")
    for key in value:
        if key not in needed and key not in optional:
            raise ClearingInputError("unknown_field", f"{path}[{quoted(key)}]", "unknown field")
    for key in needed:
        if key not in value:
            raise ClearingInputError("missing_field", f"{path}.{key}", "missing field")
    return value


def _list(path: str, value: object, read: Callable[[str, object], T]) -> tuple[T, ...]:
    if type(value) is not list:
        raise _refuse(path, value, "not_an_array", "an array")
    return tuple(read(f"{path}[{place}]", item) for place, item in enumerate(value))


def _mapping(path: str, value: object, read: Callable[[str, object], T]) -> dict[str, T]:
    if type(value) is not dict:
        raise _refuse(path, value, "not_an_object", "an object")
    for key in value:
        try:
            key.encode()
        except UnicodeEncodeError as error:
            message = "an id must be encodable as UTF-8"
            raise ClearingInputError("invalid_id", f"{path}[{quoted(key)}]", message) from error
    return {key: read(f"{path}[{quoted(key)}]", item) for key, item in _by_id(value.items())}


def string_of(path: str, value: object) -> str:
    """Return a string, or refuse what stands at its path."""
    if type(value) is not str:
        raise _refuse(path, value, "not_a_string", "a string")
    return value


def integer_of(path: str, value: object) -> int:
    """Return an integer, or refuse what stands at its path; its range is not checked."""
    if type(value) is not int:
        raise _refuse(path, value, "not_an_integer", "an integer")
    return value


def optional_integer_of(path: str, value: object) -> int | None:
    """Return an integer or null, or refuse what stands at its path."""
    return None if value is None else integer_of(path, value)
