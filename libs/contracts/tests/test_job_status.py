"""What a status says of a job that waits: a known reason, by how much it is short, which cycle."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.quantities import MACC_MAX
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged

EXAMPLES = Path(__file__).parents[3] / "schemas" / "examples" / "job.status.v1"
FILES = sorted(EXAMPLES.glob("*.json"))
MACC = st.integers(0, MACC_MAX)


def read(path: Path) -> JobStatusChanged:
    return JobStatusChanged.model_validate_json(path.read_text("utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_give_reasons_that_there_are_and_a_cycle_where_one_is_given(path: Path) -> None:
    status = read(path)
    assert (status.state is JobState.PENDING) == bool(status.reason) == (status.cycle is not None)
    assert not status.reason or status.reason in set(WaitReason)


def test_some_example_waits() -> None:
    assert any(read(path).reason for path in FILES)


@given(needed=MACC, available=MACC)
def test_a_job_is_short_by_what_it_needs_beyond_what_there_is(needed: int, available: int) -> None:
    (waits,) = [read(path) for path in FILES if path.stem == "waiting_for_quota"]
    status = waits.model_copy(update={"needed_macc": needed, "available_macc": available})
    assert status.short_by_macc == max(0, needed - available)
    runs = status.model_copy(update={"reason": ""})
    assert runs.short_by_macc == 0, "who runs lacks nothing"


def test_a_status_without_a_cycle_can_be_read_as_it_was_written_before_there_was_one() -> None:
    (waits,) = [read(path) for path in FILES if path.stem == "waiting_for_quota"]
    older = waits.model_dump(mode="json", exclude={"cycle"})
    assert JobStatusChanged.model_validate(older).cycle is None
