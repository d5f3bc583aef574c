"""What is compared in memory is what the services decide on a real broker, and its report."""

from pathlib import Path

import pytest

from tests.performance.policy_compare import SCENARIO
from tests.performance.policy_replay import PolicyRun, replay_report
from walras.demo.policies import Policies
from walras.demo.run import DemoOptions, run_demo
from walras_contracts.accounts import Rounding

OF_THE_MACHINE = {"run", "latency", "events"}
"""Wall-clock times, and counts that include barriers, which the run in memory does not keep."""


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_report_of_a_run_in_memory_is_that_of_the_run_on_kafka(tmp_path: Path) -> None:
    run = PolicyRun(SCENARIO, 1, 1, Rounding.RESERVE, 0)
    policies = Policies(run.rounding, run.retention_gap_ppm)
    options = DemoOptions(
        SCENARIO, tmp_path / "kafka", hours=1, board=False, policies=policies, own_servers=True
    )
    on_kafka = run_demo(options, print)
    in_memory = replay_report(run, tmp_path, lambda *_: None)
    assert on_kafka.keys() == in_memory.keys()
    for name in on_kafka.keys() - OF_THE_MACHINE:
        assert on_kafka[name] == in_memory[name], name
