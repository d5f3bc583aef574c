"""`walras nodes` counts each device once and tells silence in market time."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.jobs_events import (
    HOUR_MS,
    NOW_MS,
    health,
    lease,
    node,
    node_drain,
    observed,
    session,
)
from walras.jobs_log import Fault, Item, JobsLogError
from walras.jobs_log.testing import MemoryLog
from walras.nodes.document import nodes_document
from walras.nodes.reading import (
    Devices,
    Nodes,
    NodeView,
    _heartbeats,
    observed_lately,
    read_nodes,
)
from walras.nodes.tables import nodes_table, page_lines, state_words
from walras_contracts.capacity import NodeHealthReported, NodeState
from walras_contracts.drains import NodeDrainChanged
from walras_contracts.work import LeaseGranted
from walras_runtime.records import Barrier


def log_of(*events: Any) -> MemoryLog:
    log = MemoryLog()
    log.put(*events)
    log.pass_barrier(NOW_MS)
    return log


def one(log: MemoryLog, name: str = "n-1") -> tuple[NodeView, Nodes]:
    nodes = read_nodes(log, name)
    return nodes.nodes[0], nodes


@pytest.mark.parametrize(
    ("more", "devices"),
    [
        ({}, Devices(free=5, held=3, withheld=0)),
        ({"withheld_devices": (1, 7)}, Devices(free=4, held=3, withheld=1)),
        ({"lost": True}, Devices(free=0, held=3, withheld=5)),
        ({"state": "draining"}, Devices(free=0, held=3, withheld=5)),
        ({"state": "off"}, Devices(free=0, held=3, withheld=5)),
        ({"devices": 2}, Devices(free=0, held=2, withheld=0)),
    ],
)
def test_devices_are_free_held_or_withheld(more: dict[str, Any], devices: Devices) -> None:
    log = log_of(node(**more), lease(), lease(name="l-2", devices=(3,), job="k"), lease("n-2"))
    view, _ = one(log)
    assert view.devices == devices


@given(
    st.integers(1, 9),
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
    st.sampled_from(list(NodeState)),
    st.booleans(),
)
def test_every_device_counts_once(
    count: int, unhealthy: set[int], held: set[int], state: NodeState, lost: bool
) -> None:
    shown = node(devices=count, withheld_devices=tuple(unhealthy), state=state, lost=lost)
    leases = (lease(devices=tuple(held)),) if held else ()
    devices = NodeView(shown, None, leases, None, None, ()).devices
    assert devices.free + devices.held + devices.withheld == count
    assert min(devices.free, devices.held, devices.withheld) >= 0
    assert devices.held == len([index for index in held if index < count])
    if state is not NodeState.ACTIVE or lost:
        assert devices.free == 0, "unknown is never free"


def test_silence_is_market_time_from_barrier_to_barrier() -> None:
    log = log_of(node(), node("n-2"), node("n-3"), health())
    log.put(health("n-2"))
    log.pass_barrier(NOW_MS + 5000)
    log.pass_barrier(NOW_MS + 10_000)
    nodes = read_nodes(log)
    silent = {view.node.node: nodes.silent_ms(view) for view in nodes.nodes}
    assert silent == {"n-1": 10_000, "n-2": 5000, "n-3": None}
    log.put(health())
    view, nodes = one(log)
    assert nodes.silent_ms(view) == 0, "it spoke behind the last barrier"
    log.end(NodeHealthReported, "n-1", "n-1")
    view, nodes = one(log)
    assert nodes.silent_ms(view) is None
    assert "never spoke" in "\n".join(page_lines(view, nodes))


def test_a_barrier_of_another_partition_hears_nobody() -> None:
    items = [
        Item("node.health", 0, 0, "n-1", health()),
        Item("node.health", 1, 0, "", barrier=Barrier(0, NOW_MS)),
        Item("node.health", 1, 1, "n-2", health("n-2")),
        Item("node.health", 1, 2, "", barrier=Barrier(1, NOW_MS + 5)),
    ]
    found, last = _heartbeats(items)
    assert {name: each.heard_ms for name, each in found.items()} == {
        "n-1": None,
        "n-2": NOW_MS + 5,
    }
    assert last == Barrier(1, NOW_MS + 5)


def test_a_draining_node_tells_deadline_and_blockers_and_who_leaves() -> None:
    log = log_of(
        node(state="draining", urgent=True, domain="rack-3", owner_pool="p"),
        lease(),
        node_drain("stuck", blockers=("l-1 of team t",), deadline_ms=NOW_MS - 1000),
        session("terminating", blockers=("n-1: pid 5",)),
        session("freed", "l-9"),
        health(unhealthy_devices=(7,), detail="ECC"),
    )
    view, nodes = one(log)
    lines = "\n".join(page_lines(view, nodes))
    assert "n-1: draining, urgent; as of barrier 0" in lines
    assert "stuck, 1 lease left, ends by 2027-01-15T07:59:59Z (over since 1s)" in lines
    assert "waits for l-1 of team t" in lines
    assert "l-1 of t/j, market: devices 0, 1" in lines
    assert "t/j: terminating: it was ordered" in lines
    assert [each.lease for each in view.sessions] == ["l-1"], "of leases that are there"
    log.end(NodeDrainChanged, "node/n-1", "n-1")
    log.end(LeaseGranted, "l-1/n-1", "n-1")
    view, nodes = one(log)
    assert (view.drain, view.leases, view.sessions) == (None, (), ())


def test_unhealthy_devices_are_named_with_why() -> None:
    log = log_of(node(withheld_devices=(7,)), health(unhealthy_devices=(7,), detail="ECC"))
    assert "devices 7 (ECC)" in "\n".join(page_lines(*one(log)))


def test_a_statement_that_does_not_count_yet_is_told() -> None:
    log = log_of(observed(), node())
    log.put(observed(state="draining"))
    view, nodes = one(log)
    assert state_words(view) == "active, draining is stated and does not count yet"
    assert nodes_document(nodes)["nodes"][0]["coming_state"] == "draining"
    log.put(node(state="draining"))
    assert one(log)[0].coming is None


def test_only_statements_of_the_last_hour_may_still_be_coming() -> None:
    log = MemoryLog()
    log.pass_barrier(NOW_MS - 2 * HOUR_MS)
    log.put(observed("n-1"))
    log.pass_barrier(NOW_MS - HOUR_MS - 1)
    log.put(observed("n-2", devices=1), observed("n-4"))
    log.pass_barrier(NOW_MS - 5)
    log.put(observed("n-2", devices=2), observed("n-3"))
    log.pass_barrier(NOW_MS)
    found = observed_lately(log)
    assert set(found) == {"n-2", "n-3", "n-4"}
    assert found["n-2"].devices == 2


def test_gone_nodes_are_listed_when_asked_for_and_always_found_by_name() -> None:
    log = log_of(node("b"), node("a", state="gone"), node("c", type="a10"))
    assert [view.node.node for view in read_nodes(log).nodes] == ["c", "b"]
    assert [view.node.node for view in read_nodes(log, gone=True).nodes] == ["c", "a", "b"]
    assert one(log, "a")[0].devices == Devices(0, 0, 8)
    assert nodes_table(read_nodes(log, gone=True)).row_count == 3


def test_an_unknown_node_is_refused_and_one_that_is_not_published_yet_is_told_apart() -> None:
    log = log_of(observed("new"))
    with pytest.raises(JobsLogError, match="no node x is there") as caught:
        read_nodes(log, "x")
    assert caught.value.code is Fault.UNKNOWN_NODE
    with pytest.raises(JobsLogError, match="capacity has not published it yet"):
        read_nodes(log, "new")


def test_the_document_is_json_and_says_what_is_not_known() -> None:
    document = json.loads(json.dumps(nodes_document(read_nodes(log_of(node(), lease())))))
    (shown,) = document["nodes"]
    assert (shown["free"], shown["held"], shown["silent_ms"], shown["drain"]) == (6, 2, None, None)
    assert shown["leases"][0]["job"] == "j"
    assert nodes_document(read_nodes(MemoryLog()))["barrier"] is None
