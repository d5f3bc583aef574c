"""An archive gives back the events that it was given, however they came."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.archive import Archive, ArchiveError, RecordedCycle
from walras.archive.columns import arrow_type, events_of, table_of
from walras.archive.day_file import DayFile, read_events
from walras.archive.recorded_cycle import RecordedEvent, grouped
from walras.archive.storing import Stored, store
from walras.archive.testing import INTERVAL_MS, START_MS, CycleMaker
from walras_clearing import Market
from walras_clearing.testing import draw_market
from walras_contracts.examples import arbitrary_event
from walras_contracts.market import CycleFramed, CycleRecorded

ALL = range(2**53)
DAY_MS = 86_400_000


def unheard(done: int, total: int) -> None:
    """Progress that nobody looks at."""


def read(archive: Archive) -> list[RecordedCycle]:
    return list(archive.cycles(archive.markets(), unheard))


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of each file."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*.parquet*"))
    }


def cycles_of(seed: int, count: int, rows_a_part: int, start_ms: int) -> list[RecordedCycle]:
    """Cycles of two markets, in the order of the log."""
    draw = Random(seed)
    makers = [CycleMaker(name, start_ms, rows_a_part) for name in ("a100", "h100")]
    found = []
    for _ in range(count):
        for maker in makers:
            market = draw_market(draw.randint)
            cleared = draw.random() < 0.8
            key = draw.random() < 0.3
            found.append(maker.cleared(market, key=key) if cleared else maker.halted(market))
    return found


@st.composite
def logs(draw: Callable[[st.SearchStrategy[int]], int]) -> list[RecordedCycle]:
    near_midnight = START_MS + DAY_MS - draw(st.integers(0, 4)) * INTERVAL_MS
    return cycles_of(
        draw(st.integers(0, 10**6)), draw(st.integers(1, 6)), draw(st.integers(1, 5)), near_midnight
    )


def by_market(cycles: Iterable[RecordedCycle]) -> list[RecordedCycle]:
    return sorted(cycles, key=lambda cycle: (cycle.market, cycle.cycle))


@given(logs())
def test_what_is_read_back_is_what_was_stored(log: list[RecordedCycle]) -> None:
    with TemporaryDirectory() as directory:
        archive = Archive(Path(directory) / "archive")
        stored = store(log, archive, ALL)
        assert read(archive) == by_market(log)
        assert stored.missing == []
        assert stored.events_added == sum(len(cycle.events()) for cycle in log)


@given(log=logs(), pieces=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=4))
def test_runs_over_any_pieces_in_any_order_merge_to_the_same(
    log: list[RecordedCycle], pieces: list[tuple[int, int]]
) -> None:
    with TemporaryDirectory() as directory:
        archive = Archive(Path(directory))
        for first, last in pieces:
            store(log, archive, range(first, last + 1))
        store(log, archive, ALL)
        assert read(archive) == by_market(log)
        before = contents(archive.root)
        again = store(log, archive, ALL)
        assert (again.events_added, again.files_written) == (0, 0)
        assert contents(archive.root) == before


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("model", [CycleRecorded, CycleFramed])
def test_any_event_of_the_contract_becomes_a_row_and_comes_back(
    model: type[CycleRecorded] | type[CycleFramed], seed: int
) -> None:
    draw = Random(seed)
    events = [arbitrary_event(model, draw) for _ in range(20)]
    assert list(events_of(table_of(events), "memory")) == events


def test_a_kind_of_value_without_a_column_is_refused() -> None:
    assert arrow_type(tuple[int | None, ...]) == pa.list_(pa.field("element", pa.int64()))
    with pytest.raises(TypeError, match="float"):
        arrow_type(tuple[float, ...])


def test_a_day_of_market_time_has_a_file_of_its_own(tmp_path: Path) -> None:
    log = cycles_of(1, 4, 100, START_MS + DAY_MS - 2 * INTERVAL_MS)
    store(log, Archive(tmp_path), ALL)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.parquet"))] == [
        "a100/2021-03-24.parquet",
        "a100/2021-03-25.parquet",
        "h100/2021-03-24.parquet",
        "h100/2021-03-25.parquet",
    ]
    first = next(read_events(tmp_path / "a100" / "2021-03-25.parquet"))
    assert first.market_time_ms == START_MS + DAY_MS


def test_an_archive_of_another_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    store(cycles_of(1, 5, 100, START_MS), archive, ALL)
    before = contents(tmp_path)
    with pytest.raises(ArchiveError, match="an archive is of one log"):
        store(cycles_of(2, 6, 100, START_MS), archive, ALL)
    assert contents(tmp_path) == before


def test_a_run_that_breaks_off_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    log = cycles_of(3, 6, 2, START_MS)
    archive = Archive(tmp_path)
    store(log[:4], archive, ALL)
    before = contents(tmp_path)

    def broken() -> Iterator[RecordedCycle]:
        yield from log
        raise ArchiveError("the broker is gone")

    with pytest.raises(ArchiveError, match="gone"):
        store(broken(), archive, ALL)
    assert contents(tmp_path) == before
    store(log, archive, ALL)
    assert read(archive) == by_market(log)


def test_what_retention_cut_is_left_out_and_what_is_missing_later_is_named(tmp_path: Path) -> None:
    maker = CycleMaker(rows_a_part=1)
    draw = Random(5)
    log = [maker.cleared(draw_market(draw.randint), key=True) for _ in range(6)]
    cut = RecordedCycle(log[0].market, 0, log[0].head, log[0].frames[1:], oldest=True)
    headless = RecordedCycle(log[3].market, 3, None, log[3].frames)
    stored = store([cut, log[1], log[2], headless, log[4], log[5]], Archive(tmp_path), ALL)
    assert stored.cut == 1
    assert stored.missing == [("a100", 3, "its record is missing")]
    assert [cycle.cycle for cycle in read(Archive(tmp_path))] == [1, 2, 4, 5]


def test_of_a_log_that_is_not_cut_the_first_cycle_is_named_too(tmp_path: Path) -> None:
    log = whole_cycles(3)
    headless = RecordedCycle("a100", 0, None, log[0].frames)
    stored = store([headless, *log[1:]], Archive(tmp_path), ALL)
    assert (stored.cut, stored.missing) == (0, [("a100", 0, "its record is missing")])


def test_cycles_that_are_not_there_at_all_are_named_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    log = whole_cycles(7)
    gaps = [*log[:2], log[3], log[6]]
    both = [("a100", 2, "it is missing"), ("a100", 4, "all up to 5 are missing")]
    for number, (within, missing) in enumerate(
        [(ALL, both), (range(3), both[:1]), (range(3, 4), []), (range(5, 9), both[1:])]
    ):
        assert store(gaps, Archive(tmp_path / str(number)), within).missing == missing


def whole_cycles(count: int, start_ms: int = START_MS, seed: int = 5) -> list[RecordedCycle]:
    """Cycles of one market, each with a key frame."""
    maker, draw = CycleMaker(start_ms=start_ms, rows_a_part=1), Random(seed)
    return [maker.cleared(draw_market(draw.randint), key=True) for _ in range(count)]


@pytest.mark.parametrize("days", [-3, 3])
def test_the_same_cycles_of_another_log_are_refused_on_other_days_too(
    tmp_path: Path, days: int
) -> None:
    archive = Archive(tmp_path)
    store(whole_cycles(3), archive, ALL)
    before = contents(tmp_path)
    with pytest.raises(ArchiveError, match=r"cycle \d is not between .* an archive is of one log"):
        store(whole_cycles(4, START_MS + days * DAY_MS, seed=6), archive, ALL)
    assert contents(tmp_path) == before


def test_damage_anywhere_in_a_file_is_named_or_does_not_matter(tmp_path: Path) -> None:
    log = whole_cycles(4)
    archive = Archive(tmp_path)
    store(log, archive, ALL)
    (path,) = archive.files("a100")
    good, draw, named = path.read_bytes(), Random(2026), 0
    for _ in range(400):
        at, damaged = draw.randrange(len(good)), bytearray(good)
        if draw.random() < 0.5:
            damaged[at] ^= 1 << draw.randrange(8)
        else:
            del damaged[at : at + draw.randint(1, 40)]
        path.write_bytes(damaged)
        for use in (read, lambda held: store(log, held, ALL)):
            try:
                use(archive)
            except ArchiveError as error:
                assert "2021-03-24.parquet" in str(error)  # noqa: PT017
                named += 1
        path.write_bytes(good)
    assert named > 600


def test_a_cycle_that_is_recorded_twice_is_refused(tmp_path: Path) -> None:
    cycle = CycleMaker().cleared(Market(0, (), ()))
    with pytest.raises(ArchiveError, match="cycle 0: it is recorded twice"):
        list(grouped([*cycle.events()[:1], *cycle.events()]))
    with pytest.raises(ArchiveError, match="cycle 0: it comes behind a later one"):
        store([cycle, cycle], Archive(tmp_path), ALL)
    assert contents(tmp_path) == {}


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with Archive(tmp_path).locked(), pytest.raises(ArchiveError, match="another process"):
        store([], Archive(tmp_path), ALL)
    assert store([], Archive(tmp_path), ALL) == Stored()


def test_a_file_of_a_build_with_other_fields_is_merged(tmp_path: Path) -> None:
    log = [cycle for cycle in cycles_of(6, 4, 100, START_MS) if cycle.market == "a100"]
    path = Archive(tmp_path).path("a100", "2021-03-24")
    events = [event for cycle in log[:2] for event in cycle.events()]
    write_with_more_fields(path, events)
    store(log, Archive(tmp_path), ALL)
    assert read(Archive(tmp_path)) == log


def write_with_more_fields(path: Path, events: list[RecordedEvent]) -> None:
    table = table_of(events)
    index = table.schema.get_field_index("record")
    kind = pa.struct([*table.schema.field("record").type, pa.field("later", pa.int64())])
    rows = [row and {**row, "later": 1} for row in table["record"].to_pylist()]
    path.parent.mkdir(parents=True)
    pq.write_table(table.set_column(index, pa.field("record", kind), pa.array(rows, kind)), path)


def test_a_day_is_written_in_groups_of_rows_that_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walras.archive.day_file.GROUP_BYTES", 1)
    monkeypatch.setattr("walras.archive.day_file.BATCH_EVENTS", 2)
    log = [cycle for cycle in cycles_of(7, 9, 2, START_MS) if cycle.market == "a100"]
    file = DayFile(tmp_path / "a100" / "2021-03-24.parquet")
    for cycle in log:
        file.add(cycle.events())
    file.close()
    assert pq.ParquetFile(file.path).num_row_groups > 3
    for cycles in (log[::2], log):
        again = DayFile(file.path)
        for cycle in cycles:
            again.add(cycle.events())
        again.close()
        assert again.added == 0
    assert read(Archive(tmp_path)) == log


@pytest.mark.parametrize("body", [b"", b"PAR1", b"not parquet at all, however long it may be"])
def test_a_file_that_is_not_of_an_archive_is_named(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a100" / "2021-03-24.parquet"
    path.parent.mkdir()
    path.write_bytes(body)
    with pytest.raises(ArchiveError, match=r"2021-03-24\.parquet"):
        read(Archive(tmp_path))


def test_a_file_with_other_columns_or_of_another_market_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a100" / "2021-03-24.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"cycle": [1]}), path)
    with pytest.raises(ArchiveError, match="it has no column type"):
        read(Archive(tmp_path))
    maker = CycleMaker("h100")
    cycle = maker.cleared(Market(0, (), ()))
    pq.write_table(table_of(cycle.events()), path)
    with pytest.raises(ArchiveError, match="holds a cycle of market h100"):
        read(Archive(tmp_path))


def test_days_before_the_last_key_frame_are_not_read(tmp_path: Path) -> None:
    maker = CycleMaker(start_ms=START_MS + DAY_MS - 2 * INTERVAL_MS)
    draw = Random(8)
    log = [maker.cleared(draw_market(draw.randint), key=number == 3) for number in range(6)]
    archive = Archive(tmp_path)
    store(log, archive, ALL)
    first = {
        start: next(archive.cycles(["a100"], unheard, range(start, 9))).cycle
        for start in (0, 2, 3, 5)
    }
    assert first == {0: 0, 2: 0, 3: 2, 5: 2}


def test_days_behind_the_cycle_after_the_last_are_not_read(tmp_path: Path) -> None:
    log = whole_cycles(6, START_MS + DAY_MS - 2 * INTERVAL_MS)
    archive = Archive(tmp_path)
    store(log, archive, ALL)
    events = [len(cycle.events()) for cycle in log]
    told: list[tuple[int, int]] = []

    def listen(done: int, total: int) -> None:
        told.append((done, total))

    for stop, held in ((1, events[:2]), (2, events), (9, events)):
        assert list(archive.cycles(["a100"], listen, range(stop))) == log[: stop + 1]
        assert told[-1] == (sum(held), sum(held))
