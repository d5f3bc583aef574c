"""The cost of each stage is measured for every stage."""

import pytest

from tests.performance.stage_cost import main


def test_every_stage_of_the_chain_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "billing",
        "capacity",
        "clearing",
        "drain",
        "intake",
        "invoicing",
        "node_agent",
        "placement",
    ]
