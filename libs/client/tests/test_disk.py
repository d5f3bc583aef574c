"""The file: whole or not at all, and never trusted blindly."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_client.disk import keep, read_file, write_file
from walras_client.ladder import Sighting, Source
from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet

WHOLE = st.integers(0, 2**53)
NAMES = st.text("abc", min_size=1, max_size=3)
PLACES = st.builds(Place, st.sampled_from(["log", "other"]), WHOLE, WHOLE, WHOLE, WHOLE)
SHEETS = st.builds(
    QuotaSheet,
    PLACES,
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.builds(Quota, WHOLE, WHOLE), max_size=2)),
    st.dictionaries(NAMES, WHOLE),
    st.dictionaries(NAMES, WHOLE),
)
FLOORS = st.builds(
    FloorSheet, PLACES, st.dictionaries(NAMES, st.dictionaries(NAMES, WHOLE, max_size=2))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disk")


@settings(deadline=None)
@given(quotas=st.none() | SHEETS, floor=st.none() | FLOORS)
def test_what_was_written_is_read_back(
    folder: Path, quotas: QuotaSheet | None, floor: FloorSheet | None
) -> None:
    kept = Sighting(Source.DISK, quotas, floor)
    assert write_file(folder / "quota.json", kept)
    assert read_file(folder / "quota.json") == kept
    assert [path.name for path in folder.iterdir()] == ["quota.json"]


@settings(deadline=None)
@given(cut=st.integers(0, 400), junk=st.binary(max_size=5))
def test_a_damaged_file_is_a_fault_or_nothing_and_never_quotas(
    folder: Path, cut: int, junk: bytes
) -> None:
    path = folder / "quota.json"
    sheet = QuotaSheet(Place("log", 1, 1, 1, 1), {"a": {"gpu": Quota(1)}}, {"gpu": 1}, {"a": 1})
    write_file(path, Sighting(Source.DISK, sheet))
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + junk)
    if path.read_bytes() == whole:
        return
    found = read_file(path)
    assert found.quotas is None or found == Sighting(Source.DISK, sheet)
    assert found.fault == "unreadable_sheet" or found.quotas == sheet


DEEP = b'{"format":1,"quotas":' + b"[" * 200_000


@pytest.mark.parametrize(
    "content",
    [*(b"{}", b"[]", b"null", b'{"format":9}', b'"x"', b"\xff"), pytest.param(DEEP, id="deep")],
)
def test_a_file_of_another_kind_is_a_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "quota.json"
    path.write_bytes(content)
    assert read_file(path) == Sighting(Source.DISK, fault="unreadable_sheet")


def test_a_missing_file_is_nothing_and_an_unwritable_place_is_told(tmp_path: Path) -> None:
    assert read_file(tmp_path / "none.json") == Sighting(Source.DISK)
    (tmp_path / "file").write_text("not a directory", "utf-8")
    assert not write_file(tmp_path / "file" / "quota.json", Sighting(Source.DISK))
    assert read_file(tmp_path) == Sighting(Source.DISK, fault="file_not_readable")


def test_the_newest_quotas_and_the_newest_floor_of_the_log_are_kept() -> None:
    def quotas(barrier: int, log: str = "log") -> QuotaSheet:
        return QuotaSheet(Place(log, 1, 0, barrier, 0), {}, {})

    old_floor = FloorSheet(Place("log", 1, 0, 1, 0), {})
    held = Sighting(Source.DISK, quotas(1), old_floor)
    market = Sighting(Source.MARKET, quotas(5))
    other = Sighting(Source.SNAPSHOT, quotas(9, "other"))
    assert keep(held, log="log", seen=[market, other]) == Sighting(
        Source.DISK, quotas(5), old_floor
    )
    assert keep(held, log="other", seen=[other]) == Sighting(Source.DISK, quotas(9, "other"))
