"""What agents say, in any order and any number of times, only takes a part forward."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.drains import DrainCommand
from walras_contracts.work import DrainState
from walras_drain.parts import BLOCKERS_MAX, Part, PartEnd, Said, blockers_of, freed, gone, heard

words = st.builds(
    Said,
    st.sampled_from(DrainState),
    st.sampled_from(["", "cancel_rejected", "forced", "device_not_freed"]),
    st.integers(0, 100),
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
)


def told(part: Part, said: list[Said], *, gang: bool) -> Part:
    for word in said:
        part = heard(part, word, gang=gang, now_ms=7)
    return part


def without_progress(part: Part) -> Part:
    return replace(part, blockers=(), outcome="")


@given(said=st.lists(words, max_size=12), gang=st.booleans())
def test_a_part_never_goes_back_and_is_never_freed_by_what_is_said_of_its_drain(
    said: list[Said], gang: bool
) -> None:
    part = Part("n1", command=DrainCommand.DRAIN)
    for word in said:
        after = heard(part, word, gang=gang, now_ms=7)
        assert after.rank >= part.rank
        assert after.holds >= part.holds
        assert after.back >= part.back
        assert after.rejected >= part.rejected
        assert after.end in {part.end, PartEnd.FAILED}
        assert not after.is_closed
        part = after


@given(said=st.lists(words, max_size=8), gang=st.booleans())
def test_saying_all_of_it_once_more_changes_nothing(said: list[Said], gang: bool) -> None:
    once = told(Part("n1"), said, gang=gang)
    twice = told(once, said, gang=gang)
    # Whether all was saved in time is decided by the first time.
    assert without_progress(twice) == without_progress(once)


@given(said=st.lists(words, max_size=8), late=st.lists(words, max_size=4), at_ms=st.integers(0, 99))
def test_a_part_is_freed_once_and_hears_nothing_after_it(
    said: list[Said], late: list[Said], at_ms: int
) -> None:
    part = freed(told(Part("n1"), said, gang=False), at_ms)
    assert part.end is PartEnd.FREED
    assert freed(part, at_ms + 1) == part
    assert gone(part) == part
    assert told(part, late, gang=False) == part


def test_a_part_of_a_gang_that_goes_back_before_it_is_confirmed_only_holds_still() -> None:
    word = Said(DrainState.CANCELLED, "", 0)
    asked = Part("n1", command=DrainCommand.CANCEL)
    assert heard(asked, word, gang=True, now_ms=0).holds
    assert not heard(asked, word, gang=True, now_ms=0).back
    confirmed = Part("n1", command=DrainCommand.CONFIRM)
    assert heard(confirmed, word, gang=True, now_ms=0).back


def test_blockers_name_the_node_and_are_no_more_than_an_event_holds() -> None:
    parts = [Part(f"n{number}", blockers=("x" * 600, "y")) for number in range(20)]
    found = blockers_of(parts)
    assert len(found) == BLOCKERS_MAX
    assert max(map(len, found)) == 500
    assert found[0] == "n0: its agent has not answered yet"
