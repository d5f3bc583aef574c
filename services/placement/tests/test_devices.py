"""The flat pool: nothing is held twice, nothing is lost, history leaves no trace."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.capacity import NodePublished, NodeState
from walras_placement.devices import DevicePool
from walras_placement.draft import Draft
from walras_placement.shares import Share
from walras_runtime.errors import InvariantBrokenError

SEED = st.integers(0, 2**32 - 1)


def node(
    name: str,
    devices: int,
    *,
    kind: str = "a",
    macc: int = 1000,
    withheld: tuple[int, ...] = (),
    state: NodeState = NodeState.ACTIVE,
) -> NodePublished:
    return NodePublished(
        node=name,
        type=kind,
        cell="c",
        devices=devices,
        macc_per_device=macc,
        owner_pool=None,
        withheld_devices=withheld,
        state=state,
    )


def pool_of(*nodes: NodePublished) -> DevicePool:
    pool = DevicePool()
    for published in nodes:
        pool.put(published.node, published)
    return pool


def taken(pool: DevicePool, size_macc: int, kind: str = "a") -> list[tuple[str, tuple[int, ...]]]:
    shares = Draft(pool).take(kind, size_macc)
    assert shares is not None
    return [(share.node, share.devices) for share in shares]


def test_a_job_goes_to_the_tightest_node_that_has_room_for_all_of_it() -> None:
    pool = pool_of(node("n1", 8), node("n2", 3), node("n3", 4))

    assert taken(pool, 3000) == [("n2", (0, 1, 2))]
    assert taken(pool, 4000) == [("n3", (0, 1, 2, 3))]


def test_a_job_that_fits_no_node_takes_the_emptiest_and_the_tightest_for_the_rest() -> None:
    pool = pool_of(node("n1", 8), node("n2", 1), node("n3", 4))

    assert taken(pool, 9000) == [("n1", tuple(range(8))), ("n2", (0,))]


def test_a_part_of_a_device_takes_the_whole_device() -> None:
    pool = pool_of(node("n1", 2))
    draft = Draft(pool)

    assert draft.take("a", 1500) == (Share("n1", (0, 1), 2000),)
    assert draft.take("a", 1) is None


@pytest.mark.parametrize(("size_macc", "whole_macc"), [(1, 300), (300, 300), (301, 600)])
def test_a_size_is_rounded_up_to_whole_devices(size_macc: int, whole_macc: int) -> None:
    pool = pool_of(node("n1", 2, macc=300))

    assert pool.whole_macc("a", size_macc) == whole_macc
    assert pool.whole_macc("unknown", size_macc) == size_macc


def test_what_is_put_back_can_be_taken_again() -> None:
    pool = pool_of(node("n1", 2), node("n2", 1))
    draft = Draft(pool)
    first = draft.take("a", 2500)
    assert first is not None
    draft.put_back("a", first)

    assert draft.take("a", 2500) == first
    assert draft.open_macc("a") == 0


def test_a_plan_on_a_draft_leaves_the_pool_alone() -> None:
    pool = pool_of(node("n1", 2))
    Draft(pool).take("a", 2000)

    assert pool.places["a"].open_macc == 2000
    pool.check()


def test_a_held_device_cannot_be_held_again() -> None:
    pool = pool_of(node("n1", 2))
    pool.hold("x", "a", [Share("n1", (0,), 1000)])

    with pytest.raises(InvariantBrokenError, match="held by x"):
        pool.hold("y", "a", [Share("n1", (0,), 1000)])
    with pytest.raises(InvariantBrokenError, match="does not hold"):
        pool.release("y", Share("n1", (0,), 1000))


def test_a_withdrawn_device_stays_held_names_its_lease_and_never_comes_free() -> None:
    pool = pool_of(node("n1", 2))
    share = Share("n1", (0, 1), 2000)
    pool.hold("x", "a", [share])
    pool.put("n1", node("n1", 2, withheld=(1,)))

    assert pool.withdrawn() == {"x": None}
    pool.release("x", share)
    assert pool.withdrawn() == {}
    assert taken(pool, 1000) == [("n1", (0,))]
    assert Draft(pool).take("a", 2000) is None


@pytest.mark.parametrize(
    "now",
    [node("n1", 2, kind="b"), node("n1", 2, macc=500), node("n1", 1)],
    ids=["another-type", "other-devices", "fewer-devices"],
)
def test_a_node_that_is_something_else_now_names_its_leases_until_they_are_freed(
    now: NodePublished,
) -> None:
    pool = pool_of(node("n1", 2))
    share = Share("n1", (1,), 1000)
    pool.hold("x", "a", [share])
    pool.put("n1", now)

    assert pool.withdrawn() == {"x": None}
    pool.check()
    pool.put("n1", node("n1", 2))
    assert pool.withdrawn() == {}, "it is again what it was"
    pool.put("n1", now)
    pool.release("x", share)
    assert pool.withdrawn() == {}
    pool.check()


def test_the_check_finds_a_device_that_was_lost() -> None:
    pool = pool_of(node("n1", 2))
    pool.nodes["n1"].open.pop()

    with pytest.raises(InvariantBrokenError, match="of 2"):
        pool.check()


def test_reserved_devices_are_open_for_nobody_and_go_to_their_job_when_they_are_freed() -> None:
    pool = pool_of(node("n1", 3))
    pool.hold("x", "a", [Share("n1", (0,), 1000)])
    wanted = [Share("n1", (0, 1), 2000)]
    pool.reserve("t/j", wanted)
    assert taken(pool, 1000) == [("n1", (2,))]
    with pytest.raises(InvariantBrokenError, match="reserved for t/j"):
        pool.hold("y", "a", [Share("n1", (1,), 1000)])
    with pytest.raises(InvariantBrokenError, match="reserved for t/j"):
        pool.reserve("t/k", [Share("n1", (1, 2), 2000)])
    pool.release("x", Share("n1", (0,), 1000))
    assert pool.take_awaited() == ["t/j"]
    assert Draft(pool).open_macc("a") == 1000
    pool.check()
    pool.unreserve("t/j", "a", wanted)
    assert Draft(pool).open_macc("a") == 3000
    pool.check()


def test_what_is_held_on_withdrawn_devices_counts_against_what_may_start() -> None:
    pool = pool_of(node("n1", 2), node("n2", 3))
    pool.hold("x", "a", [Share("n1", (0, 1), 2000)])
    pool.put("n1", node("n1", 2, state=NodeState.WITHHELD))
    assert pool.startable_macc("a") == 1000
    assert Draft(pool).take("a", 2000) is None
    pool.abandon("x", Share("n1", (0, 1), 2000))
    assert pool.startable_macc("a") == 3000, "no quota stands for a remnant"
    pool.hold("y", "a", [Share("n2", (0, 1, 2), 3000)])
    pool.check_started(["a"])
    pool.put("n2", node("n2", 2))
    with pytest.raises(InvariantBrokenError, match="2000 usable"):
        pool.check_started(["a"])


def spoilt(
    nodes: dict[str, NodePublished], leases: dict[str, tuple[str, tuple[Share, ...]]]
) -> set[str]:
    """Leases with a device that is not there any more as what it was given as."""
    found = set()
    for lease, (kind, shares) in leases.items():
        for share in shares:
            now = nodes.get(share.node)
            sound = (
                now is not None
                and now.state not in (NodeState.WITHHELD, NodeState.GONE)
                and (now.type, now.macc_per_device * len(share.devices)) == (kind, share.size_macc)
                and all(d < now.devices and d not in now.withheld_devices for d in share.devices)
            )
            if not sound:
                found.add(lease)
    return found


@settings(deadline=None, max_examples=150)
@given(seed=SEED)
def test_any_history_conserves_devices_and_equals_a_pool_built_from_what_is_held(
    seed: int,
) -> None:
    draw = random.Random(seed)
    pool = DevicePool()
    nodes: dict[str, NodePublished] = {}
    leases: dict[str, tuple[str, tuple[Share, ...]]] = {}
    for number in range(40):
        action = draw.random()
        if action < 0.35:
            name = f"n{draw.randrange(4)}"
            devices = draw.randint(1, 4)
            published = node(
                name,
                devices,
                kind="ab"[int(name[1]) % 2] if draw.random() < 0.8 else draw.choice("ab"),
                macc=draw.choice((1000, 1000, 1000, 300)),
                withheld=tuple(d for d in range(devices) if draw.random() < 0.2),
                state=draw.choice([NodeState.ACTIVE, NodeState.ACTIVE, *NodeState]),
            )
            if draw.random() < 0.1:
                nodes.pop(name, None)
                pool.put(name, None)
            else:
                nodes[name] = published
                pool.put(name, published)
        elif action < 0.75:
            kind = draw.choice("ab")
            size_macc = draw.randint(1, 5000)
            shares = Draft(pool).take(kind, size_macc, gang=False)
            if shares is not None:
                for share in shares:
                    assert share.macc_per_device == nodes[share.node].macc_per_device
                assert sum(s.size_macc for s in shares) >= size_macc
                leases[f"l{number}"] = (kind, shares)
                pool.hold(f"l{number}", kind, shares)
        elif leases:
            lease = draw.choice(sorted(leases))
            for share in leases.pop(lease)[1]:
                pool.release(lease, share)
        pool.check()
        assert set(pool.withdrawn()) == spoilt(nodes, leases)

    rebuilt = DevicePool()
    for name in sorted(nodes, reverse=True):
        rebuilt.put(name, nodes[name])
    for lease, (kind, shares) in leases.items():
        rebuilt.hold(lease, kind, shares)
    rebuilt.check()
    for kind in "ab":
        assert Draft(pool).open_macc(kind) == Draft(rebuilt).open_macc(kind)
        for size_macc in range(1, 9000, 999):
            assert Draft(pool).take(kind, size_macc) == Draft(rebuilt).take(kind, size_macc)
    assert pool.withdrawn() == rebuilt.withdrawn()
