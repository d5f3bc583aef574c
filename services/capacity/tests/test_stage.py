from collections.abc import Callable
from typing import Any

import pytest

from walras_capacity.settings import Settings
from walras_capacity.wiring import build
from walras_contracts.capacity import NodeObserved, NodeState
from walras_contracts.topics import load_topics

Make = Callable[..., Any]


@pytest.fixture
def capacity(make_capacity: Make) -> Any:
    """Twenty devices: eight of red, four of blue, eight shared."""
    capacity = make_capacity()
    capacity.node("n1", owner="red")
    capacity.node("n2", devices=4, owner="blue")
    capacity.node("n3")
    capacity.tick()
    return capacity


def test_everything_counts_at_once_at_step_zero(capacity: Any) -> None:
    assert capacity.supply() == (8000, {"blue": 4000, "red": 8000}, 0)
    assert list(capacity.table("nodes")) == ["n1", "n2", "n3"]


def test_an_ordinary_change_counts_from_the_next_full_hour(capacity: Any) -> None:
    capacity.node("n4")
    for _ in range(5):
        capacity.tick()
        assert capacity.supply()[0] == 8000
    assert capacity.tick() % 3_600_000 == 0
    assert capacity.supply()[0] == 16_000
    assert "n4" in capacity.table("nodes")


def test_a_change_read_in_the_step_of_a_full_hour_counts_in_it(capacity: Any) -> None:
    for _ in range(5):
        capacity.tick()
    capacity.node("n4")
    assert capacity.tick() % 3_600_000 == 0
    assert capacity.supply()[0] == 16_000


def test_an_urgent_change_counts_at_once_and_overrules_a_coming_one(capacity: Any) -> None:
    capacity.node("n3", devices=16)
    capacity.tick()
    capacity.node("n3", devices=2, urgent=True)
    capacity.tick()
    assert capacity.supply()[0] == 2000
    for _ in range(6):
        capacity.tick()
    assert capacity.supply()[0] == 2000


def test_stating_what_is_so_overrules_a_coming_change(capacity: Any) -> None:
    capacity.node("n3", devices=16)
    capacity.tick()
    capacity.node("n3")
    for _ in range(8):
        capacity.tick()
    assert capacity.supply()[0] == 8000


def test_a_loss_takes_shared_supply_first(capacity: Any) -> None:
    capacity.node("n1", owner="red", state=NodeState.WITHHELD, urgent=True)
    capacity.tick()
    assert capacity.supply() == (0, {"blue": 4000, "red": 8000}, 8000)


def test_a_loss_beyond_the_shared_supply_scales_what_the_pools_own(capacity: Any) -> None:
    capacity.node("n3", state=NodeState.GONE, urgent=True)
    capacity.health("n2", 0, 1)
    capacity.tick()
    # Ten devices are left of twelve contracted: 10000 × 4/12 and 10000 × 8/12, the rest by id.
    assert capacity.supply() == (0, {"blue": 3334, "red": 6666}, 2000)


def test_a_node_that_is_gone_is_not_owned_any_more(capacity: Any) -> None:
    capacity.node("n1", owner="red", state=NodeState.GONE, urgent=True)
    capacity.tick()
    assert capacity.supply() == (8000, {"blue": 4000}, 0)
    assert capacity.table("nodes")["n1"].state is NodeState.GONE


def test_unhealthy_devices_are_withheld_until_they_are_reported_healthy(capacity: Any) -> None:
    capacity.health("n3", 7, 2, 99)
    capacity.tick()
    assert capacity.supply() == (6000, {"blue": 4000, "red": 8000}, 2000)
    assert capacity.table("nodes")["n3"].withheld_devices == (2, 7)
    capacity.health("n3", 2)
    capacity.tick()
    assert capacity.supply()[0] == 7000
    capacity.forget_health("n3")
    capacity.tick()
    assert capacity.supply() == (8000, {"blue": 4000, "red": 8000}, 0)


def test_health_may_be_known_before_the_node_is(capacity: Any) -> None:
    capacity.health("n9", 0)
    capacity.tick()
    assert "n9" not in capacity.table("nodes")
    capacity.node("n9", urgent=True)
    capacity.tick()
    assert capacity.supply() == (15_000, {"blue": 4000, "red": 8000}, 1000)


def test_a_node_may_change_its_type(capacity: Any) -> None:
    capacity.node("n3", type_="h100", urgent=True)
    capacity.tick()
    assert capacity.supply("a100") == (0, {"blue": 4000, "red": 8000}, 0)
    assert capacity.supply("h100") == (8000, {}, 0)


def test_nothing_is_written_when_nothing_changed(capacity: Any) -> None:
    before = (
        capacity.written("supply"),
        capacity.written("nodes"),
        capacity.written("state.capacity"),
    )
    capacity.node("n1", owner="red")
    capacity.node("n3", urgent=True)
    capacity.health("n3")
    capacity.tick()
    after = capacity.written("supply"), capacity.written("nodes")
    assert after == before[:2]
    assert [k for _, k, _ in capacity.written("state.capacity")] == [
        *(k for _, k, _ in before[2]),
        "clock",
        "~position",
    ], "that a node was heard is all that is new"


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.OFF])
def test_what_is_to_be_emptied_or_off_cannot_be_sold_and_stays_owned(
    capacity: Any, state: NodeState
) -> None:
    capacity.node("n2", devices=4, owner="blue", state=state, urgent=True)
    capacity.tick()
    assert capacity.supply() == (4000, {"blue": 4000, "red": 8000}, 4000)
    assert capacity.table("nodes")["n2"].state is state


def test_a_node_is_published_with_its_domain_and_how_it_is_to_be_emptied(capacity: Any) -> None:
    capacity.node("n3", domain="rack-7", drain_within_ms=60_000)
    for _ in range(6):
        capacity.tick()
    shown = capacity.table("nodes")["n3"]
    assert (shown.domain, shown.drain_within_ms, shown.urgent) == ("rack-7", 60_000, False)
    capacity.node("n3", domain="rack-7", state=NodeState.DRAINING, urgent=True)
    capacity.tick()
    assert capacity.table("nodes")["n3"].urgent
    capacity.node("n3", domain="rack-7", urgent=True)
    capacity.tick()
    assert not capacity.table("nodes")["n3"].urgent, "only of a node that is to be emptied"


def test_a_drain_that_becomes_urgent_says_something_new(capacity: Any) -> None:
    capacity.node("n3", state=NodeState.DRAINING)
    for _ in range(6):
        capacity.tick()
    assert not capacity.table("nodes")["n3"].urgent
    capacity.node("n3", state=NodeState.DRAINING, urgent=True)
    capacity.tick()
    assert capacity.table("nodes")["n3"].urgent


def test_a_type_of_which_there_was_never_anything_is_no_market(make_capacity: Make) -> None:
    capacity = make_capacity()
    capacity.node("n1", state=NodeState.GONE)
    capacity.tick()
    assert capacity.table("supply") == {}
    assert capacity.table("nodes")["n1"].state is NodeState.GONE


def test_inventory_that_cannot_be_read_is_a_dead_letter_with_its_coordinates(
    capacity: Any,
) -> None:
    capacity.tell_bytes(b'{"node":"n1","devices":1.5}', NodeObserved.TYPE, partition=0)
    offset = len(capacity.log.read("inventory", 0, 0)) - 1
    capacity.node("n4", urgent=True)
    capacity.tick()
    (letter,) = capacity.events("dead_letter")
    assert (letter.topic, letter.partition, letter.offset) == ("inventory", 0, offset)
    assert (letter.service, letter.code) == ("capacity", "missing_field")
    assert "$.type" in letter.reason
    assert capacity.supply()[0] == 16_000


def test_the_wiring_agrees_with_the_topic_registry() -> None:
    spec = build(Settings(kafka_bootstrap="none:0"))
    topics = load_topics()
    own = {name for name, topic in topics.items() if topic.producer == "capacity"}
    assert set(spec.outputs) == own - {"state.capacity"} | {"dead_letter"}
    assert all("capacity" in topics[source.topic].consumers for source in spec.inputs)
    assert spec.state_topic in topics
    assert not spec.spread
