"""The ladder: newest fresh quotas, then the floor, and never a word more than is known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_client.ladder import (
    Aging,
    Answer,
    InsideClock,
    OutsideClock,
    Sighting,
    Source,
    answer,
    log_in_force,
)
from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet

NOW_MS = 1_000_000
MAX_MS = 60_000
CLOCK = OutsideClock(NOW_MS, MAX_MS)
RUNGS = [Source.MARKET, Source.SNAPSHOT, Source.DISK]


def place(barrier: int, *, epoch: int = 1, age_ms: int = 0, log: str = "log") -> Place:
    return Place(log, epoch, barrier, barrier, NOW_MS - age_ms)


def quotas(at: Place, macc: int = 100, supply: int = 10**9) -> QuotaSheet:
    teams = {"a": {"gpu": Quota(macc, 10)}, "b": {"gpu": Quota(macc)}}
    return QuotaSheet(at, teams, {"gpu": supply}, {"a": at.cycle, "b": at.cycle})


def floor(at: Place, macc: int = 7) -> FloorSheet:
    return FloorSheet(at, {"a": {"gpu": macc}, "b": {"gpu": 2 * macc}})


def asked(
    *sightings: Sighting, team: str = "a", aging: Aging = CLOCK, log: str | None = None
) -> Answer:
    return answer(team, sightings, aging, expected_log=log)


def test_each_rung_answers_where_those_above_are_gone_and_says_what_it_knows() -> None:
    market = Sighting(Source.MARKET, quotas(place(9, epoch=3, age_ms=10)))
    snapshot = Sighting(
        Source.SNAPSHOT, quotas(place(9, epoch=3, age_ms=10)), floor(place(9, epoch=3, age_ms=10))
    )
    disk = Sighting(
        Source.DISK, quotas(place(8, epoch=2, age_ms=20)), floor(place(8, epoch=2, age_ms=20))
    )
    down = Sighting(Source.MARKET, fault="broker_unavailable")
    lost = Sighting(Source.SNAPSHOT)
    found = [asked(market, snapshot, disk), asked(down, snapshot, disk), asked(down, lost, disk)]
    assert [a.source for a in found] == RUNGS
    assert [a.place.epoch for a in found if a.place] == [3, 3, 2]
    assert [a.age.ms for a in found if a.age] == [10, 10, 20]
    assert found[2].tried == (
        (Source.MARKET, "broker_unavailable"),
        (Source.SNAPSHOT, "absent"),
        (Source.DISK, "taken"),
    )
    assert all(a.quotas == {"gpu": Quota(100, 10)} for a in found)


def test_too_old_quotas_give_way_to_the_newest_floor_however_old() -> None:
    old = place(8, epoch=2, age_ms=MAX_MS + 1)
    older = place(7, epoch=2, age_ms=10**6)
    found = asked(
        Sighting(Source.MARKET, quotas(old)),
        Sighting(Source.SNAPSHOT, quotas(older), floor(older, 5)),
        Sighting(Source.DISK, quotas(old), floor(old, 6)),
    )
    assert (found.source, found.reason) == (Source.FLOOR, "quotas_too_old")
    assert found.quotas == {"gpu": Quota(6)}
    assert found.place == old
    assert found.age is not None
    assert found.age.ms == MAX_MS + 1


def test_quotas_count_up_to_their_greatest_age_and_not_longer() -> None:
    for age_ms, source in ((MAX_MS, Source.MARKET), (MAX_MS + 1, Source.UNKNOWN)):
        assert asked(Sighting(Source.MARKET, quotas(place(1, age_ms=age_ms)))).source == source


def test_a_newer_sheet_wins_over_a_higher_rung_that_lags() -> None:
    lagging = Sighting(Source.MARKET, quotas(place(5), macc=1))
    newer = Sighting(Source.SNAPSHOT, quotas(place(6), macc=2))
    other_leader = Sighting(Source.DISK, quotas(place(6, epoch=2), macc=3))
    assert asked(lagging, newer).quotas == {"gpu": Quota(2, 10)}
    assert asked(lagging, newer, other_leader).source == Source.DISK


@pytest.mark.parametrize("team", ["nobody", ""])
def test_a_team_that_no_list_names_is_unknown_and_not_at_zero(team: str) -> None:
    fresh = Sighting(Source.SNAPSHOT, quotas(place(5)), floor(place(5)))
    old = place(5, age_ms=10**6)
    for sighting in (fresh, Sighting(Source.SNAPSHOT, quotas(old), floor(old))):
        found = asked(sighting, team=team)
        assert (found.source, found.reason, found.quotas) == (Source.UNKNOWN, "team_unknown", None)


def test_nothing_known_is_said_so() -> None:
    found = asked(Sighting(Source.MARKET, fault="broker_unavailable"), Sighting(Source.SNAPSHOT))
    assert (found.source, found.reason) == (Source.UNKNOWN, "nothing_known")
    assert (found.quotas, found.place, found.age) == (None, None, None)


def test_what_was_published_in_the_readers_future_has_no_age_and_is_not_fresh() -> None:
    near = asked(Sighting(Source.MARKET, quotas(place(5, age_ms=-5_000))))
    assert near.source == Source.MARKET
    assert near.age is not None
    assert near.age.ms == 0
    far = asked(Sighting(Source.MARKET, quotas(place(5, age_ms=-5_001))))
    assert far.source == Source.UNKNOWN
    assert far.tried == ((Source.MARKET, "clock_skew"),)


def test_another_logs_sheets_do_not_count() -> None:
    new = Sighting(Source.SNAPSHOT, quotas(place(1, log="new"), macc=1))
    old = Sighting(Source.DISK, quotas(place(99, log="old"), macc=9), floor(place(99, log="old")))
    assert asked(new, old, log="new").quotas == {"gpu": Quota(1, 10)}
    assert asked(new, old, log="old").quotas == {"gpu": Quota(9, 10)}
    gone = asked(Sighting(Source.SNAPSHOT), old, log="new")
    assert (gone.source, gone.tried[1]) == (Source.UNKNOWN, (Source.DISK, "other_log"))
    assert log_in_force([new], None) == "new"
    assert log_in_force([Sighting(Source.SNAPSHOT, fault="x")], None) is None


def test_where_nothing_names_the_log_the_file_is_believed_before_a_snapshot_that_contradicts() -> (
    None
):
    """The broker named the file's log once; anybody's snapshot may lie in a Redis."""
    foreign = Sighting(Source.SNAPSHOT, quotas(place(99, log="foreign"), macc=9))
    held = Sighting(Source.DISK, quotas(place(1)), floor(place(1)))
    found = asked(foreign, held)
    assert (found.source, found.quotas) == (Source.DISK, {"gpu": Quota(100, 10)})
    assert found.tried == ((Source.SNAPSHOT, "other_log"), (Source.DISK, "taken"))
    only_floor = Sighting(Source.DISK, None, floor(place(1)))
    assert asked(foreign, only_floor).source == Source.FLOOR
    market = Sighting(Source.MARKET, quotas(place(2, log="foreign"), macc=9))
    assert asked(market, foreign, held).source == Source.SNAPSHOT


def test_inside_readers_age_by_barriers_and_nothing_ages_where_none_flow() -> None:
    ancient = place(10, age_ms=10**9)
    sighting = Sighting(Source.MARKET, quotas(ancient), floor(ancient))
    for newest, source in ((10, Source.MARKET), (14, Source.MARKET), (15, Source.FLOOR)):
        found = asked(sighting, aging=InsideClock(newest, 4))
        assert found.source == source
        assert found.age is not None
        assert (found.age.barriers, found.age.ms) == (newest - 10, None)
    lagging = asked(sighting, aging=InsideClock(3, 4)).age
    assert lagging is not None
    assert lagging.barriers == 0


def test_capacity_taken_back_cuts_by_the_newest_supply_even_of_a_source_not_taken() -> None:
    held = Sighting(Source.SNAPSHOT, quotas(place(5)), floor(place(5)))
    found = asked(held, Sighting(Source.DISK, quotas(place(6, age_ms=MAX_MS + 1), supply=100)))
    assert found.source == Source.SNAPSHOT
    assert found.quotas == {"gpu": Quota(50)}
    assert found.scaled == ("gpu",)
    gone = replace(quotas(place(6)), supply={})
    assert asked(Sighting(Source.MARKET, gone)).quotas == {"gpu": Quota(0)}


SHEETS = st.builds(
    lambda barrier, epoch, age_ms, log, macc, supply: quotas(
        place(barrier, epoch=epoch, age_ms=age_ms, log=log), macc, supply
    ),
    st.integers(0, 5),
    st.integers(1, 2),
    st.sampled_from([-10_000, 0, MAX_MS, MAX_MS + 1, 10**6]),
    st.sampled_from(["log", "other"]),
    st.integers(0, 100),
    st.integers(0, 300),
)


@st.composite
def sightings(draw: st.DrawFn) -> list[Sighting]:
    found = []
    for source in draw(st.permutations(RUNGS)):
        sheet = draw(st.none() | SHEETS)
        with_floor = sheet is not None and source != Source.MARKET and draw(st.booleans())
        fault = None if sheet is not None else draw(st.sampled_from([None, "broken"]))
        found.append(
            Sighting(
                source,
                sheet,
                floor(sheet.place) if sheet is not None and with_floor else None,
                fault,
            )
        )
    return found


@settings(deadline=None, max_examples=300)
@given(seen=sightings(), expected=st.none() | st.just("log"), team=st.sampled_from(["a", "b", "x"]))
def test_no_answer_says_more_than_is_known(
    seen: list[Sighting], expected: str | None, team: str
) -> None:
    found = answer(team, seen, CLOCK, expected_log=expected)
    assert (found.quotas is None) == (found.source == Source.UNKNOWN)
    assert len(found.tried) == len(seen)
    log = log_in_force(seen, expected)
    sheets = [s.quotas for s in seen if s.quotas and s.quotas.place.log_id == log]
    fresh = [s for s in sheets if -5_000 <= NOW_MS - s.place.published_at_ms <= MAX_MS]
    if found.source in RUNGS:
        assert found.place is not None
        assert found.place.order() == max(s.place.order() for s in fresh)
    elif found.source == Source.FLOOR:
        assert not fresh
    if sheets:
        newest = max(s.place.order() for s in sheets)
        supply = max(s.supply["gpu"] for s in sheets if s.place.order() == newest)
        answers = [answer(name, seen, CLOCK, expected_log=expected) for name in ("a", "b")]
        given_out = [a.quotas["gpu"] for a in answers if a.quotas]
        assert sum(q.allocated_macc + q.opportunistic_macc for q in given_out) <= supply


@settings(deadline=None)
@given(seen=sightings(), data=st.data())
def test_the_order_in_which_sources_answered_does_not_matter(
    seen: list[Sighting], data: st.DataObject
) -> None:
    assert answer("a", data.draw(st.permutations(seen)), CLOCK) == answer("a", seen, CLOCK)
