"""R18: a node on which a warning did not come true is in service again with the next step."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

Make = Callable[..., Any]
DEVICES = 8


@pytest.fixture
def capacity(make_capacity: Make) -> Any:
    capacity = make_capacity(interval_ms=5_000)
    capacity.node("n1", owner="red")
    capacity.node("n2")
    capacity.tick()
    return capacity


def shown(capacity: Any) -> tuple[Any, Any]:
    """All that others learn of nodes and supply, but for when it was said."""
    supply = {
        market: (event.shared_macc, event.own, event.withheld_macc)
        for market, event in capacity.table("supply").items()
    }
    return capacity.table("nodes"), supply


@pytest.mark.parametrize("devices", [(3,), tuple(range(DEVICES))], ids=["one", "all"])
def test_what_was_withheld_on_a_warning_is_back_one_step_after_it_is_taken_back(
    capacity: Any, devices: tuple[int, ...]
) -> None:
    before = shown(capacity)
    capacity.health("n2", *devices)
    capacity.tick()
    assert capacity.supply()[2] == 1000 * len(devices)
    for _ in range(30):
        capacity.tick()
    capacity.health("n2")
    capacity.tick()
    assert shown(capacity) == before, "and nothing else has changed"


def test_a_warning_that_comes_and_goes_within_a_step_withholds_nothing(capacity: Any) -> None:
    before = shown(capacity)
    capacity.health("n2", 0, 1)
    capacity.health("n2")
    capacity.tick()
    assert shown(capacity) == before


@given(
    warnings=st.lists(
        st.tuples(st.sampled_from(["n1", "n2"]), st.sets(st.integers(0, DEVICES - 1))), max_size=12
    ),
    crash=st.booleans(),
)
def test_whatever_was_warned_of_once_it_is_taken_back_all_is_as_it_was(
    make_capacity: Make, warnings: list[tuple[str, set[int]]], crash: bool
) -> None:
    capacity = make_capacity(interval_ms=5_000)
    capacity.node("n1", owner="red")
    capacity.node("n2")
    capacity.tick()
    before = shown(capacity)
    for node, devices in warnings:
        capacity.health(node, *sorted(devices))
        capacity.tick()
        if crash:
            capacity.crash()
    for node in ("n1", "n2"):
        capacity.health(node)
    capacity.tick()
    assert shown(capacity) == before
