"""Logs kept as files: byte for byte what the log has, and what `--file` of other commands reads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.audit_days import MINUTE_MS, Hours, MoneyWorld, usage
from walras.__main__ import build_parser
from walras.audit import AuditError, MemoryAuditLog, audit
from walras.audit.log_directory import DirectoryLog, save_log
from walras.audit.log_view import AUDITED_TOPICS, Entry
from walras_runtime.memory.log import MemoryLog
from walras_runtime.records import Barrier


def nobody(_done: int, _total: int) -> None:
    """Take a progress."""


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return Hours(5, minutes=150).run(MoneyWorld()).log


@pytest.fixture(scope="module")
def kept(log: MemoryLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a log."""
    root = tmp_path_factory.mktemp("kept") / "log"
    save_log(MemoryAuditLog(log), root, nobody)
    return root


class OneTopic:
    """A log of which one partition holds some records."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def partitions(self, topic: str) -> range:
        return range(int(topic == "usage"))

    def entries(self, _topic: str, _partition: int) -> Any:
        return iter(self._entries)

    def size(self, _topic: str, _partition: int) -> int:
        return len(self._entries)

    def last_barrier(self, _topic: str, _partition: int) -> int:
        return 0


PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from(
        (
            b"",
            b"{}",
            b'{ "a" : 1.50, "b":"\\u00e9" }',
            '{"name": "ö"}'.encode(),
            b'{}, "more": {}',
            b'{"a": 1, "a": 2}',
            b'{"a": NaN}',
            b'{"a": 1}\n',
            b'{"data": {"data": 1}}',
            b'{"a": "\\ud800"}',
            b"[" * 40,
            b'{"a": ' + b"9" * 5000 + b"}",
            b"7",
        )
    ),
)
NAMES = st.one_of(st.text(max_size=8), st.just('", "data": {'))


@given(
    records=st.lists(st.tuples(NAMES, NAMES, PAYLOADS), max_size=8),
    first=st.integers(0, 99),
)
def test_every_record_comes_back_byte_for_byte(
    records: list[tuple[str, str, bytes | None]],
    first: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    entries = [Entry(first + at, *record) for at, record in enumerate(records)]
    entries.append(Entry(first + len(records), "", "~barrier", b"", (3, 4)))
    root = tmp_path_factory.mktemp("one") / "log"
    save_log(OneTopic(entries), root, nobody)
    found = [*DirectoryLog(root).entries("usage", 0)]
    assert found[:-1] == entries[:-1]
    assert found[-1].barrier == (3, 4)
    assert DirectoryLog(root).last_barrier("usage", 0) == 3


def test_what_is_no_json_is_kept_and_audited(tmp_path: Path) -> None:
    world = MoneyWorld(invoicing=False)
    broken = usage("l1", 0, 0, MINUTE_MS)
    world.step(0, *(replace(broken, payload=each) for each in (b"\xff\x00", b"[]", b"", b'{"')))
    save_log(MemoryAuditLog(world.log), tmp_path / "log", nobody)

    report = audit(DirectoryLog(tmp_path / "log"))
    assert report.is_clean
    assert report.quarantined == {"malformed": 4}


def test_lines_that_others_wrote_with_other_spaces_are_read(tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    document = {"data": {"b": 1, "a": "ö"}, "type": "t", "key": "k", "offset": 7}
    (tmp_path / "usage" / "0.jsonl").write_text(json.dumps(document, indent=None) + "\n")
    assert [*DirectoryLog(tmp_path).entries("usage", 0)] == [
        Entry(7, "k", "t", '{"b":1,"a":"ö"}'.encode())
    ]


def as_payloads(log: MemoryLog, folder: Path, topic: str) -> list[str]:
    """Write what is on a topic as files of payloads and barriers, a partition each."""
    names = []
    for partition in log.partitions(topic):
        path = folder / f"{topic}-{partition}.jsonl"
        lines = [line_of(entry.barrier, entry.payload) for entry in log.read(topic, partition, 0)]
        path.write_bytes(b"\n".join(line for line in lines if line is not None))
        names.append(str(path))
    return names


def line_of(barrier: Barrier | None, payload: bytes | None) -> bytes | None:
    if barrier is None:
        return payload
    return json.dumps(
        {"barrier": barrier.number, "market_time_ms": barrier.market_time_ms}
    ).encode()


COMMANDS = [
    ("prices", ("a", "--pool", "p", "--json"), ("prices",)),
    ("invoices", ("--json",), ("invoices",)),
    ("bill", ("t1", "--json"), ("charges", "charges.pending", "ledger", "balances", "prices")),
    ("focus", ("--json",), ("charges", "invoices", "prices")),
]


@pytest.mark.parametrize("case", COMMANDS, ids=[command for command, *_ in COMMANDS])
def test_commands_read_kept_files_as_they_read_files_of_payloads(
    case: tuple[str, Sequence[str], Sequence[str]],
    log: MemoryLog,
    kept: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, words, topics = case
    payloads = [name for topic in topics for name in as_payloads(log, tmp_path, topic)]
    files = [
        str(kept / topic / f"{partition}.jsonl")
        for topic in topics
        for partition in log.partitions(topic)
    ]
    told = []
    for place, names in enumerate((payloads, files)):
        out = tmp_path / str(place)
        more = ("--out", str(out)) if command == "focus" else ()
        given_files = [word for name in names for word in ("--file", name)]
        arguments = build_parser(command).parse_args([command, *words, *more, *given_files])
        code = arguments.run(arguments)
        said = capsys.readouterr()
        assert (code, said.err) == (0, ""), said.err
        written = sorted(out.glob("*.csv")) if more else []
        told.append((said.out.replace(str(out), ""), [path.read_bytes() for path in written]))
    assert told[0] == told[1]
    assert told[0][0].strip()


@pytest.mark.parametrize("topic", AUDITED_TOPICS)
def test_every_kept_topic_is_one_of_events_and_barriers(topic: str, kept: Path) -> None:
    for path in sorted((kept / topic).iterdir()):
        for line in path.read_bytes().splitlines():
            document = json.loads(line)
            if "barrier" in document:
                assert document.keys() == {"barrier", "market_time_ms"}
            else:
                assert {"offset", "key", "type", "data"} <= document.keys()


def is_refused(root: Path, what: str) -> AuditError:
    with pytest.raises(AuditError, match=what) as caught:
        audit(DirectoryLog(root))
    assert (caught.value.code, caught.value.retriable) == ("audit_impossible", False)
    return caught.value


@pytest.mark.parametrize("topic", ["usage", "balances", "invoices"])
def test_what_cannot_be_read_is_named_with_a_code(
    topic: str, log: MemoryLog, tmp_path: Path
) -> None:
    save_log(MemoryAuditLog(log), tmp_path / "log", nobody)
    path = tmp_path / "log" / topic / "0.jsonl"
    path.unlink()
    path.mkdir()
    assert str(path) in str(is_refused(tmp_path / "log", "Is a directory"))
    path.rmdir()
    path.symlink_to(tmp_path / "nowhere")
    assert str(path) in str(is_refused(tmp_path / "log", "No such file"))


def test_a_topic_that_is_no_folder_and_a_name_that_is_too_long_are_named(tmp_path: Path) -> None:
    (tmp_path / "usage").write_text("")
    is_refused(tmp_path, "usage: Not a directory")
    is_refused(tmp_path / ("x" * 5000), "File name too long")


def test_a_log_that_cannot_be_written_is_named(log: MemoryLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match="file/log: Not a directory"):
        save_log(MemoryAuditLog(log), tmp_path / "file" / "log", nobody)
