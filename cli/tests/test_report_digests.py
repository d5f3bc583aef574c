"""Digests change with what was decided and with nothing else."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from walras.report import build_report
from walras.report.testing import CONTEXT, Log, tiny_log
from walras_contracts.generate import REPOSITORY
from walras_contracts.market import CycleRecorded, FrameKind

DECIDED = ("prices", "quotas", "cycles")
NOTHING = replace(tiny_log()["vacate"][0], partition=3)


def _digests(log: Log) -> dict[str, str]:
    found: dict[str, str] = build_report(CONTEXT, log)["digests"]
    return found


def _spread(log: Log) -> Log:
    """Put every second record of the decided topics on partition 1."""
    for topic in DECIDED:
        log[topic] = [replace(r, partition=i % 2) for i, r in enumerate(log[topic])]
    return log


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_digest_changes_when_any_decided_record_changes(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(DECIDED))
    log = _spread(tiny_log())
    places = [i for i, r in enumerate(log[topic]) if r.type != "walras.barrier.v1"]
    at = data.draw(st.sampled_from(places))
    record = log[topic][at]
    before = _digests(_spread(tiny_log()))
    change = data.draw(st.sampled_from(["payload", "drop", "twice", "move", "tombstone"]))
    match change:
        case "payload":
            assert record.value is not None
            log[topic][at] = replace(record, value=record.value + b" ")
        case "drop":
            log[topic].pop(at)
        case "twice":
            log[topic].insert(at, record)
        case "move":
            log[topic][at] = replace(record, partition=2)
        case _:
            if topic != "quotas":
                return
            log[topic][at] = replace(record, value=None)
    after = _digests(log)
    assert after[topic] != before[topic]
    assert {t: after[t] for t in DECIDED if t != topic} == {
        t: before[t] for t in DECIDED if t != topic
    }


def test_a_digest_tells_key_type_and_payload_apart() -> None:
    log = tiny_log()
    before = _digests(log)
    record = log["quotas"][0]
    assert record.value is not None
    log["quotas"][0] = replace(record, key=record.key + "{", value=record.value[1:])
    assert _digests(log)["quotas"] != before["quotas"]


def test_digests_ignore_barriers_offsets_stamps_headers_and_interleaving() -> None:
    before = _digests(_spread(tiny_log()))
    log = _spread(tiny_log())
    for topic in DECIDED:
        kept = [r for r in log[topic] if r.type != "walras.barrier.v1"]
        kept.sort(key=lambda record: record.partition)
        log[topic] = [
            replace(r, offset=r.offset + 9, timestamp_ms=77, headers={"epoch": b"4"}) for r in kept
        ]
    assert _digests(log) == before


def test_digests_ignore_the_topics_that_nobody_decided() -> None:
    log = tiny_log()
    before = _digests(log)
    log["vacate"].append(NOTHING)
    log["usage"].pop()
    assert _digests(log) == before


def test_digests_ignore_how_a_cycle_was_framed_and_nothing_else_of_it() -> None:
    def with_head(head: bytes) -> str:
        log = tiny_log()
        place = next(i for i, r in enumerate(log["cycles"]) if r.type == CycleRecorded.TYPE)
        log["cycles"][place] = replace(log["cycles"][place], value=head)
        return _digests(log)["cycles"]

    path = REPOSITORY / "schemas/examples/cycle.recorded.v1/cleared.json"
    head = CycleRecorded.model_validate_json(path.read_bytes())
    written = with_head(head.payload())
    whole = head.model_copy(update={"frame": FrameKind.KEY, "frames": 64})
    assert whole != head
    assert with_head(whole.payload()) == written
    assert with_head(head.model_copy(update={"jobs": head.jobs + 1}).payload()) != written
