from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_job import Part, PartEnvironmentError
from walras_job.part import attempt_of

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
GOOD = Part(
    *("team-a", "job-1", "lease-1", "node-1"),
    attempt=3,
    part=1,
    parts=2,
    devices=(0, 3),
    control_directory=Path("control"),
    checkpoint_directory=Path("checkpoints"),
).to_environment()


@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES),
    attempt=st.integers(0, 10**12),
    part=st.integers(0, 100),
    more=st.integers(1, 100),
    devices=st.lists(st.integers(0, 100)).map(tuple),
)
def test_a_part_is_what_its_environment_says(
    names: tuple[str, str, str, str], attempt: int, part: int, more: int, devices: tuple[int, ...]
) -> None:
    there = Part(*names, attempt, part, part + more, devices, Path("control"), Path("saved"))
    assert Part.from_environment(there.to_environment()) == there


def test_outside_walras_there_is_no_part() -> None:
    assert Part.from_environment({}) is None
    assert Part.from_environment({**GOOD, "WALRAS_CONTROL_DIR": ""}) is None
    assert Part.from_environment() is None


@pytest.mark.parametrize("name", sorted(GOOD.keys() - {"WALRAS_CONTROL_DIR"}))
def test_a_variable_that_is_missing_is_named(name: str) -> None:
    rest = {key: text for key, text in GOOD.items() if key != name}
    with pytest.raises(PartEnvironmentError, match=f"^{name} is not set") as caught:
        Part.from_environment(rest)
    assert (caught.value.code, caught.value.retriable) == ("environment_wrong", False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("WALRAS_ATTEMPT", "one"),
        ("WALRAS_ATTEMPT", "-1"),
        ("WALRAS_ATTEMPT", "1" * 30),
        ("WALRAS_PART", "²"),
        ("WALRAS_PART", "2"),
        ("WALRAS_DEVICES", "0,"),
        ("WALRAS_DEVICES", "gpu0"),
    ],
)
def test_a_variable_that_is_wrong_is_named_with_its_text(name: str, text: str) -> None:
    with pytest.raises(PartEnvironmentError, match=f"{name} is '?{text}"):
        Part.from_environment({**GOOD, name: text})


def test_the_attempt_alone_is_read_without_the_rest() -> None:
    assert attempt_of({"WALRAS_ATTEMPT": "7"}) == 7
    assert attempt_of({"WALRAS_ATTEMPT": ""}) is None
    assert attempt_of({}) is None
    with pytest.raises(PartEnvironmentError):
        attempt_of({"WALRAS_ATTEMPT": "x"})
