from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walras_capacity.core import counts_from_ms, supply_of
from walras_capacity.stage import CapacityStage
from walras_capacity.state import Totals
from walras_contracts.capacity import NodeObserved, NodeState

Make = Callable[..., Any]
Said = tuple[Any, ...]
History = list[list[Said]]

MINUTE_MS = 60_000
NODES = ("n1", "n2", "n3", "n4")
COMMON = settings(
    deadline=None,
    max_examples=25,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

_node = st.sampled_from(NODES)
_observed = st.tuples(
    st.just("node"),
    _node,
    st.integers(1, 3),
    st.sampled_from(("a100", "h100")),
    st.sampled_from((None, "red", "blue", "green")),
    st.sampled_from(tuple(NodeState)),
    st.booleans(),
)
_health = st.tuples(st.just("health"), _node, st.sets(st.integers(0, 4)).map(sorted).map(tuple))
_no_health = st.tuples(st.just("no health"), _node)
_garbage = st.tuples(st.just("raw"), st.one_of(st.none(), st.binary(max_size=40)))
_interval = st.lists(st.one_of(_observed, _observed, _health, _no_health, _garbage), max_size=5)
_history = st.lists(_interval, min_size=1, max_size=14)
_expected_ms = st.sampled_from((5_000, 600_000))
"""Every barrier follows an interruption, or none does and the silent are lost."""


def say(capacity: Any, said: list[Said]) -> None:
    for kind, *rest in said:
        match kind, rest:
            case "node", [node, devices, type_, owner, state, urgent]:
                capacity.node(node, devices, type_=type_, owner=owner, state=state, urgent=urgent)
            case "health", [node, unhealthy]:
                capacity.health(node, *unhealthy)
            case "no health", [node]:
                capacity.forget_health(node)
            case "raw", [payload]:
                capacity.tell_bytes(payload, NodeObserved.TYPE)
            case _:
                raise AssertionError(kind)


def run(capacity: Any, history: History, crashes: frozenset[int] = frozenset()) -> Any:
    for number, said in enumerate(history):
        say(capacity, said)
        capacity.tick()
        if number in crashes:
            capacity.crash()
    for _ in range(7):
        capacity.tick()
    return capacity


def agrees_with_the_nodes(capacity: Any) -> bool:
    """Whether each supply is what the published nodes add up to, counted afresh."""
    for type_, supply in capacity.table("supply").items():
        present = withheld = 0
        contracted: dict[str, int] = {}
        for node in capacity.table("nodes").values():
            if node.type != type_ or node.state is NodeState.GONE:
                continue
            total = node.devices * node.macc_per_device
            good = total - len(node.withheld_devices) * node.macc_per_device
            good = good if node.state is NodeState.ACTIVE and not node.lost else 0
            present, withheld = present + good, withheld + total - good
            if node.owner_pool is not None:
                contracted[node.owner_pool] = contracted.get(node.owner_pool, 0) + total
        own = {item.pool: item.macc for item in supply.own}
        if supply.shared_macc + sum(own.values()) != present or supply.withheld_macc != withheld:
            return False
        if any(macc > contracted.get(pool, 0) for pool, macc in own.items()):
            return False
        if supply.shared_macc > 0 and own != contracted:
            return False
    return True


@COMMON
@given(history=_history, expected_ms=_expected_ms)
def test_own_and_shared_supply_never_exceed_what_is_present(
    make_capacity: Make, history: History, expected_ms: int
) -> None:
    capacity = make_capacity(expected_ms=expected_ms)
    for said in history:
        say(capacity, said)
        capacity.tick()
        assert agrees_with_the_nodes(capacity)


def test_canary_a_capacity_that_does_not_take_away_what_changed_is_caught(
    make_capacity: Make, monkeypatch: Any
) -> None:
    plain = Totals.add
    monkeypatch.setattr(
        Totals, "add", lambda self, share, sign: plain(self, share, 1) if sign > 0 else None
    )
    capacity = make_capacity()
    capacity.node("n1")
    capacity.tick()
    capacity.node("n1", devices=3, urgent=True)
    capacity.tick()
    assert not agrees_with_the_nodes(capacity)


@COMMON
@given(
    history=_history,
    crashes=st.frozensets(st.integers(0, 14), max_size=6),
    expected_ms=_expected_ms,
)
def test_a_crash_after_any_steps_changes_nothing(
    make_capacity: Make, history: History, crashes: frozenset[int], expected_ms: int
) -> None:
    calm, crashed = (
        run(make_capacity(expected_ms=expected_ms), history, lost)
        for lost in (frozenset[int](), crashes)
    )
    for topic in ("supply", "nodes", "dead_letter", "state.capacity"):
        assert crashed.written(topic) == calm.written(topic)


def test_canary_a_capacity_that_forgets_its_nodes_is_caught(make_capacity: Make) -> None:
    class Forgetful(CapacityStage):
        def load(self, key: str, value: bytes) -> None:
            if not key.startswith("node/"):
                super().load(key, value)

    history: History = [
        [("node", "n1", 3, "a100", None, NodeState.ACTIVE, False)],
        [("health", "n1", (0,))],
    ]
    calm = run(make_capacity(lambda _: Forgetful(MINUTE_MS)), history)
    crashed = run(make_capacity(lambda _: Forgetful(MINUTE_MS)), history, frozenset({0}))
    assert crashed.written("supply") != calm.written("supply")


@COMMON
@given(history=_history, more=_history, expected_ms=_expected_ms)
def test_compaction_and_a_restart_change_nothing(
    make_capacity: Make, history: History, more: History, expected_ms: int
) -> None:
    calm, compacted = (run(make_capacity(expected_ms=expected_ms), history) for _ in range(2))
    compacted.compact()
    compacted.crash()
    run(calm, more)
    run(compacted, more)
    for topic in ("supply", "nodes"):
        assert compacted.table(topic) == calm.table(topic)
    assert compacted.written("dead_letter") == calm.written("dead_letter")
    assert compacted.state() == calm.state()


@COMMON
@given(history=_history, times=st.integers(2, 3))
def test_batches_told_again_change_nothing(
    make_capacity: Make, history: History, times: int
) -> None:
    once = run(make_capacity(), history)
    again = run(make_capacity(), [[s for s in said for _ in range(times)] for said in history])
    for topic in ("supply", "nodes"):
        assert again.written(topic) == once.written(topic)


@COMMON
@given(
    present_macc=st.integers(0, 10**6),
    contracted=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**6)),
)
def test_a_loss_leaves_no_pool_more_than_it_owns_and_nothing_is_lost_twice(
    present_macc: int, contracted: dict[str, int]
) -> None:
    supply = supply_of(present_macc, 0, contracted)
    own = {item.pool: item.macc for item in supply.own}
    total = sum(contracted.values())
    assert supply.shared_macc + sum(own.values()) == present_macc
    assert list(own) == sorted(own)
    for pool, macc in contracted.items():
        if total <= present_macc:
            assert own.get(pool, 0) == macc
        else:
            exact = macc * present_macc
            assert exact // total <= own.get(pool, 0) <= min(macc, exact // total + 1)


@given(market_time_ms=st.integers(0, 4 * 10**12))
def test_an_ordinary_change_waits_for_less_than_an_hour(market_time_ms: int) -> None:
    counts_ms = counts_from_ms(market_time_ms)
    assert counts_ms % 3_600_000 == 0
    assert market_time_ms <= counts_ms < market_time_ms + 3_600_000
