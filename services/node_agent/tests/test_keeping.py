"""Keeping comes before doing: what the journal has no room for is not begun."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from services.node_agent.tests.grants import grant
from services.node_agent.tests.lives import RULES
from services.node_agent.tests.test_journal import no_file_grows_beyond
from walras_node_agent.agent.node import Node
from walras_node_agent.agent.recovery import Recovered, Start, recover
from walras_node_agent.host import keeping as keeping_module
from walras_node_agent.host.journal import Journal
from walras_node_agent.host.keeping import Keeping
from walras_node_agent.host.spool import Spool
from walras_node_agent.part_life import Happened
from walras_node_agent.part_table import Effect, PartEvent


def node() -> Node:
    return Node("n1", 4, RULES, progress_ms=10_000, offset_ms=0)


def keeping(journal: Journal, kept: Node, *, most_bytes: int = 1 << 20) -> Keeping:
    return Keeping(kept, journal, Spool([], 0, most_bytes), Start("boot", 0), {})


def known(directory: Path) -> Recovered:
    with closing(Journal(directory)) as journal:
        return recover(journal.read())


def test_what_is_kept_is_in_the_journal_before_it_may_be_done(tmp_path: Path) -> None:
    kept = node()
    with closing(Journal(tmp_path)) as journal:
        room = keeping(journal, kept)
        room.note_seen({"leases": 7})
        kept.grant(grant(), {}, 0)
        deeds = room.keep(kept.take_turn())
        assert deeds == [("l1", Effect.START)]
        assert room.fresh.is_set()
        recovered = known(tmp_path)
    assert recovered.parts["l1"].life == kept.parts["l1"].life
    assert [e.topic for e in recovered.events.values()] == ["lease.status"]
    assert recovered.seen == {"leases": 7}
    assert recovered.start == Start("boot", 0)


def test_without_room_nothing_begins_what_ends_ends_and_all_is_kept_later(tmp_path: Path) -> None:
    kept = node()
    with closing(Journal(tmp_path)) as journal:
        room = keeping(journal, kept)
        kept.grant(grant("l1"), {}, 0)
        kept.happens("l1", Happened(PartEvent.STARTED), 0)
        room.keep(kept.take_turn())
        with no_file_grows_beyond(journal.size):
            kept.grant(grant("l2", devices=(1,)), {}, 0)
            kept.end_lease("l1", 0)
            assert room.keep(kept.take_turn()) == [("l1", Effect.TERMINATE)]
            assert room.disk_full
            assert room.strained
            assert len(room.spool) == 2
        assert room.keep(kept.take_turn()) == [("l2", Effect.START)]
        assert len(room.spool) == 3
        assert not room.disk_full
    assert {n: p.dump() for n, p in known(tmp_path).parts.items()} == {
        n: p.dump() for n, p in kept.parts.items()
    }


def test_a_long_journal_is_shortened_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_module, "JOURNAL_BYTES", 1_000)
    kept = node()
    with closing(Journal(tmp_path)) as journal:
        room = keeping(journal, kept)
        for number in range(30):
            kept.grant(grant(f"l{number}", devices=(number % 4,)), {}, 0)
            room.keep(kept.take_turn())
        room.acknowledged(20)
        before = journal.size
        room.shorten()
        assert journal.size < before
        size = journal.size
        room.shorten()
        assert journal.size == size
        kept.end_lease("l0", 0)
        room.keep(kept.take_turn())
    recovered = known(tmp_path)
    assert json.dumps({n: p.dump() for n, p in recovered.parts.items()}) == json.dumps(
        {n: p.dump() for n, p in kept.parts.items()}
    )
    assert list(recovered.events.items()) == room.spool.everything()
    assert recovered.next_number == room.spool.next_number


def test_a_spool_above_its_bound_asks_for_less(tmp_path: Path) -> None:
    kept = node()
    with closing(Journal(tmp_path)) as journal:
        room = keeping(journal, kept, most_bytes=500)
        assert not room.strained
        for lease in ("l1", "l2"):
            kept.grant(grant(lease, devices=(len(lease),)), {}, 0)
            room.keep(kept.take_turn())
        assert room.strained
        room.acknowledged(room.spool.next_number)
        assert not room.strained
