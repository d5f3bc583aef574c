"""A queue record says all that the submission said, through every later change and restart."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from walras_contracts.demand import JobQueued, JobSubmitted
from walras_contracts.examples import arbitrary_event
from walras_contracts.runs import EnvironmentVariable, RunSpec
from walras_intake.core import judge_submission

Make = Callable[..., Any]

RUN = RunSpec(
    command=("python", "train.py"),
    environment=(EnvironmentVariable(name="EPOCHS", value="3"),),
    checkpoint_ms=45_000,
)
SHARED = sorted(set(JobSubmitted.model_fields) & set(JobQueued.model_fields))


def test_the_command_of_a_job_stands_in_its_queue_record_until_it_ends(make_intakes: Make) -> None:
    intakes = make_intakes()
    intakes.pool("red", "ann", event_id="p")
    job = JobSubmitted(
        team="ann", job="j", types=("a100",), size_macc=4000, submitted_ms=1, run=RUN
    )
    intakes.tell(job, "s")
    intakes.tick()
    found = [intakes.queue()["ann/j"].run]
    intakes.limit("ann", "j", 1, 5, event_id="l")
    intakes.tick()
    found.append(intakes.queue()["ann/j"].run)
    intakes.crash()
    intakes.cancel("ann", "j", event_id="c")
    intakes.tick()
    found.append(intakes.queue()["ann/j"].run)

    assert found == [RUN, RUN, RUN]


@pytest.mark.parametrize("seed", range(50))
def test_every_field_that_submission_and_queue_share_is_copied(seed: int) -> None:
    event = arbitrary_event(JobSubmitted, Random(seed))
    queued = judge_submission(None, "told", "p", event, 7)

    assert isinstance(queued, JobQueued)
    assert {"run", "drainability", "deadline_ms"} <= set(SHARED)
    for name in SHARED:
        assert getattr(queued, name) == getattr(event, name), name
