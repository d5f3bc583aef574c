"""Nothing that a record can do makes the agent raise, and everything is counted."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.market import PricePublished
from walras_runtime.faust.safe_agent import Fate, Tally, handle
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier, Record

GOOD = PricePublished(
    market="gpu", cycle=1, market_time_ms=60_000, reference_price_micro=5, pools=()
)


WANTED = frozenset({GOOD.TYPE})


@dataclass
class Message:
    value: bytes | None
    key: bytes | None = b"gpu"
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    partition: int = 0
    offset: int = 0
    timestamp: float = 0.0


def ignore(record: Record) -> None:
    return


def good() -> Message:
    return Message(GOOD.payload(), headers=event_headers("1", b"test", GOOD.TYPE))


def test_an_event_is_folded_decoded() -> None:
    seen: list[Record] = []
    assert handle(good(), "prices", seen.append, WANTED) == Fate.FOLDED
    assert seen[0].event == GOOD
    assert (seen[0].topic, seen[0].event_id) == ("prices", "1")


def test_barriers_and_tombstones_are_passed_over() -> None:
    seen: list[Record] = []
    barrier = Barrier(3, 180_000)
    mark = Message(barrier_value(barrier), barrier.key().encode(), barrier_headers(1))
    gone = Message(None, headers=event_headers("1", b"test", GOOD.TYPE))
    assert handle(mark, "prices", seen.append, WANTED) == Fate.BARRIER
    assert handle(gone, "prices", seen.append, WANTED) == Fate.TOMBSTONE
    assert seen == []


def test_a_fold_that_raises_is_counted_and_the_next_record_is_folded() -> None:
    def broken(record: Record) -> None:
        raise ZeroDivisionError

    assert handle(good(), "prices", broken, WANTED) == Fate.FAILED
    assert handle(good(), "prices", ignore, WANTED) == Fate.FOLDED


def test_what_cannot_be_read_has_a_fate_of_its_own() -> None:
    broken = Message(b"{", headers=event_headers("1", b"test", GOOD.TYPE))
    newer = Message(b"{}", headers=event_headers("1", b"test", "walras.price.published.v9"))
    assert handle(broken, "prices", ignore, WANTED) == Fate.UNDECODABLE
    assert handle(newer, "prices", ignore, WANTED) == Fate.UNKNOWN_VERSION


@settings(deadline=None)
@given(
    value=st.none() | st.binary(max_size=40),
    key=st.none() | st.binary(max_size=12) | st.just(b"~barrier/1"),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["ce_type", "walras_epoch", "ce_id"]),
            st.binary(max_size=8) | st.sampled_from([GOOD.TYPE.encode(), b"walras.barrier.v1"]),
        ),
        max_size=4,
    ),
)
def test_no_bytes_make_it_raise(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    assert handle(Message(value, key, headers), "prices", ignore, WANTED) in Fate


def test_a_known_type_that_is_not_wanted_is_not_even_decoded() -> None:
    other = Message(b"{", headers=event_headers("1", b"test", "walras.quota.granted.v1"))
    assert handle(other, "prices", ignore, WANTED) == Fate.NOT_WANTED


def test_the_tally_names_faults_only() -> None:
    tally = Tally()
    tally.counts["prices", Fate.FOLDED] += 3
    tally.counts["prices", Fate.UNDECODABLE] += 2
    tally.counts["cycles", Fate.FAILED] += 1
    assert tally.faults() == {"cycles: fold_failed": 1, "prices: undecodable": 2}
    assert tally.of(Fate.FOLDED) == 3
