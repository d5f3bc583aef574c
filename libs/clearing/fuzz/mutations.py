"""Mutations of instances: some keep the grammar and reach into the kernel, some break it.

Everything is drawn from the generator that is passed in, so that an input is a function of its
seed. Half of the inputs stay within the grammar, with numbers at its edges; a quarter breaks the
grammar in a place or two; a quarter is broken as bytes.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final

from libs.clearing.fuzz.documents import drawn_document, encoded

EDGES: Final = (
    *(0, 1, 2, 999, 1_000, 1_001, 10**6, 2**31 - 1, 2**31, 2**53, 2**53 + 1),
    *(10**12 - 1, 10**12, 10**15 - 1, 10**15, 10**15 // 2, 10**15 // 3),
)
"""Numbers at which the ranges of a market, or the arithmetic of a machine, end."""

STRANGE: Final[tuple[Any, ...]] = (
    *(-1, -(2**63), 10**12 + 1, 10**15 + 1, 2**63 - 1, 2**63, 2**64, 10**39, 10**40, 10**400),
    *(0.0, 1.0, 1.5, 1e300, float("nan"), float("inf"), True, False, None, "", "1", "p0", "t0"),
    *("\ud800", "\u0000", "\U0001f4a9", "é" * 70, "keep", "lend", [], {}, [0], {"pool": "p0"}),
)
"""Values that no field accepts, and some that another field would."""

BYTES: Final = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b",")
DEEPEST: Final = 200_000

Place = tuple[dict[str, Any] | list[Any], Any]
"""A container of a document, and the key or index of one of its values."""


def mutated_input(rng: Random) -> bytes:
    """Draw one input."""
    document: Any = drawn_document(rng)
    kind = rng.choice((0, 0, 1, 2))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        rng.choice(WITHIN_GRAMMAR)(document, rng)
    if kind == 1:
        for _ in range(rng.choice((1, 1, 2))):
            rng.choice(AGAINST_GRAMMAR)(document, rng)
    data = encoded(document, rng)
    if kind == 2:
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = rng.choice(ON_BYTES)(data, rng)
    return data


def places(document: Any) -> Iterator[Place]:
    """Yield the place of every value, containers before what they hold."""
    if isinstance(document, dict | list):
        keys = list(document) if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield document, key
            yield from places(document[key])


def _numbers(document: Any) -> list[Place]:
    return [place for place in places(document) if type(place[0][place[1]]) is int]


def _replaced(rng: Random, choices: list[Place], values: tuple[Any, ...]) -> None:
    if choices:
        container, key = rng.choice(choices)
        container[key] = deepcopy(rng.choice(values))


# ---- within the grammar ------------------------------------------------------------------------


def edge_number(document: Any, rng: Random) -> None:
    """Put a number at an edge of the ranges."""
    _replaced(rng, _numbers(document), EDGES)


def near_number(document: Any, rng: Random) -> None:
    """Move a number a little, or by a power of two."""
    choices = _numbers(document)
    if choices:
        container, key = rng.choice(choices)
        number = container[key]
        container[key] = max(0, rng.choice((number + 1, number - 1, number * 2, number // 2)))


def same_number(document: Any, rng: Random) -> None:
    """Make two numbers equal: ties."""
    choices = _numbers(document)
    if choices:
        (container, key), (other, name) = rng.choice(choices), rng.choice(choices)
        container[key] = other[name]


def all_equal(document: Any, rng: Random) -> None:
    """Give one field the same value everywhere."""
    name = rng.choice(("limit_micro", "size_macc", "bid_micro_per_hour", "own_supply_macc"))
    value = rng.choice((*EDGES, None)) if name == "limit_micro" else rng.choice(EDGES)
    for container, key in list(places(document)):
        if key == name:
            container[key] = value


def no_limit(document: Any, rng: Random) -> None:
    """Take the limit from a job."""
    choices = [place for place in places(document) if place[1] == "limit_micro"]
    _replaced(rng, choices, (None,))


def more_of_it(document: Any, rng: Random) -> None:
    """Repeat a pool, a team or a job under another id."""
    choices = [
        (container, key)
        for container, key in places(document)
        if isinstance(container, list) and isinstance(container[key], dict)
    ]
    if choices:
        container, key = rng.choice(choices)
        for number in range(rng.choice((1, 1, 2, 40))):
            twin = deepcopy(container[key])
            name = next((n for n in ("job", "team", "pool") if n in twin), "pool")
            twin[name] = f"{twin.get(name)}-{number}-{rng.randrange(1_000)}"
            container.insert(rng.randrange(len(container) + 1), twin)


def other_order(document: Any, rng: Random) -> None:
    """Shuffle a list."""
    choices = [c for c, k in places(document) if isinstance(c[k], list)]
    if choices:
        container = rng.choice(choices)
        lists = [value for value in _values(container) if isinstance(value, list)]
        rng.shuffle(rng.choice(lists))


def _values(container: dict[str, Any] | list[Any]) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


# ---- against the grammar -----------------------------------------------------------------------


def strange_value(document: Any, rng: Random) -> None:
    """Put something foreign in the place of a value."""
    _replaced(rng, list(places(document)), STRANGE)


def lost_value(document: Any, rng: Random) -> None:
    """Drop a field or an element."""
    choices = list(places(document))
    if choices:
        container, key = rng.choice(choices)
        del container[key]


def unknown_field(document: Any, rng: Random) -> None:
    """Add a field that no form has."""
    choices = [c for c, _ in places(document) if isinstance(c, dict)]
    if choices:
        rng.choice(choices)[rng.choice(("extra", "", "weight", "pool"))] = rng.choice(STRANGE)


def moved_value(document: Any, rng: Random) -> None:
    """Copy a part of the document into another place."""
    choices = list(places(document))
    if choices:
        (container, key), (other, name) = rng.choice(choices), rng.choice(choices)
        container[key] = deepcopy(other[name])


# ---- on bytes ----------------------------------------------------------------------------------


def flipped_bit(data: bytes, rng: Random) -> bytes:
    """Flip one bit."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << rng.randrange(8)),)) + data[at + 1 :]


def cut(data: bytes, rng: Random) -> bytes:
    """Remove a stretch, or everything from a point on."""
    first = rng.randrange(len(data) + 1)
    last = rng.choice((len(data), first + rng.randrange(1, 9)))
    return data[:first] + data[last:]


def inserted(data: bytes, rng: Random) -> bytes:
    """Insert bytes that mean something to JSON or to UTF-8."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(BYTES) * rng.choice((1, 1, 3)) + data[at:]


def repeated(data: bytes, rng: Random) -> bytes:
    """Repeat a stretch: the same key twice, longer numbers, nested lists."""
    first = rng.randrange(len(data) + 1)
    stretch = data[first : first + rng.randrange(1, 40)]
    return data[:first] + stretch * rng.choice((2, 2, 50)) + data[first:]


def nested(data: bytes, rng: Random) -> bytes:
    """Put deeply nested lists in front of a byte."""
    at = rng.randrange(len(data) + 1)
    depth = rng.choice((10, 990, 1_010, DEEPEST))
    return data[:at] + b"[" * depth + (b"]" * depth if rng.random() < 0.5 else b"") + data[at:]


def long_number(data: bytes, rng: Random) -> bytes:
    """Lengthen a number by digits, a fraction or an exponent."""
    digits = [at for at, byte in enumerate(data) if byte in b"0123456789"]
    at = rng.choice(digits) if digits else 0
    tail = rng.choice((b"0" * 60, b"9" * 39, b"1" * 5_000, b".0", b"e9", b"E+400", b"_0"))
    return data[:at] + tail + data[at:]


WITHIN_GRAMMAR: Final[tuple[Callable[[Any, Random], None], ...]] = (
    *(edge_number, edge_number, near_number, same_number, all_equal, no_limit),
    *(more_of_it, other_order),
)
AGAINST_GRAMMAR: Final[tuple[Callable[[Any, Random], None], ...]] = (
    *(strange_value, strange_value, lost_value, unknown_field, moved_value),
)
ON_BYTES: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    *(flipped_bit, cut, inserted, repeated, nested, long_number),
)
