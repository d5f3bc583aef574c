"""The queue of events that the log has not acknowledged."""

from walras_node_agent.agent.outgoing import Outgoing
from walras_node_agent.host.spool import Spool


def event(name: str, payload: str | None = "{}") -> Outgoing:
    return Outgoing(name, "usage", "key", "team", "type", payload)


def numbers(spool: Spool) -> list[int]:
    return [number for number, _ in spool.everything()]


def test_events_stay_in_order_until_the_log_has_them() -> None:
    spool = Spool([(7, event("a"))], 8, 1 << 20)
    spool.put([event("b"), event("c", None)])
    assert [(number, each.event_id) for number, each in spool.oldest(2)] == [(7, "a"), (8, "b")]
    spool.acknowledge(9)

    assert numbers(spool) == [9]
    assert spool.next_number == 10
    spool.acknowledge(5)
    assert numbers(spool) == [9]


def test_a_spool_is_full_by_its_bytes_and_has_room_again() -> None:
    spool = Spool([], 0, 2_000)
    spool.put([event("a", "x" * 1_000)])
    assert not spool.full
    spool.put([event("b", "x" * 1_000)])
    assert spool.full
    spool.acknowledge(1)
    assert not spool.full
    assert len(spool) == 1
