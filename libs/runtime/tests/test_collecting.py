"""Garbage is looked for when nothing else is to be done, and found then."""

import gc
import subprocess
import sys

import pytest

from walras_runtime.collecting import IN_A_STEP, WORTH_A_LOOK, collect_when_idle

STEP = """
import gc
from walras_runtime.collecting import WORTH_A_LOOK, collect_between_steps, collect_when_idle
collect_between_steps()
runs = []
gc.callbacks.append(lambda phase, info: runs.append(info["generation"]))
step = [[] for _ in range(5 * WORTH_A_LOOK)]
in_the_step = list(runs)
for each in step:
    each.append(each)
del step, each
collect_when_idle()
print(in_the_step, runs[:1], gc.get_count()[0] < WORTH_A_LOOK, len(gc.get_objects()))
"""


def test_a_large_step_is_not_interrupted_and_its_garbage_is_gone_after_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STEP], capture_output=True, text=True, check=True, timeout=120
    )
    in_the_step, rest = run.stdout.strip().split("] ", 1)
    assert in_the_step == "["
    looked_at, is_counted_down, left = rest.split()
    assert (looked_at, is_counted_down) == ("[0]", "True")
    assert int(left) < WORTH_A_LOOK


THRESHOLD = """
import gc, sys
from walras_runtime import service
from walras_runtime.settings import ServiceSettings

async def nothing(*_, **__):
    print(gc.get_threshold()[0], gc.get_freeze_count() > 1000)

service.run_stages = nothing
sys.argv = ["walras-service"]
if {is_stage}:
    service.service_main(ServiceSettings, lambda settings: None)
else:
    service.process_main(ServiceSettings, nothing)
"""


@pytest.mark.parametrize(("is_stage", "most"), [(True, IN_A_STEP), (False, WORTH_A_LOOK)])
def test_only_a_process_with_a_step_loop_waits_for_that_loop(is_stage: bool, most: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", THRESHOLD.format(is_stage=is_stage)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"WALRAS_KAFKA_BOOTSTRAP": "nowhere:0"},
    )
    assert run.stdout.splitlines()[-1] == f"{most} True"


@pytest.mark.parametrize(
    ("counts", "generation"),
    [
        ((WORTH_A_LOOK - 1, 99, 99), None),
        ((WORTH_A_LOOK, 20, 99), 0),
        ((WORTH_A_LOOK, 21, 20), 1),
        ((WORTH_A_LOOK, 21, 21), 2),
    ],
)
def test_older_containers_are_looked_at_after_twenty_looks_at_younger_ones(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int, int], generation: int | None
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(gc, "get_count", lambda: counts)
    monkeypatch.setattr(gc, "collect", looks.append)
    collect_when_idle()
    assert looks == ([] if generation is None else [generation])


def test_a_step_may_make_more_than_idle_collecting_waits_for() -> None:
    assert IN_A_STEP > WORTH_A_LOOK
    assert gc.isenabled()
