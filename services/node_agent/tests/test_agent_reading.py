"""What readers of the log hand over is taken in the order in which it was read."""

from pathlib import Path

import pytest

from walras_contracts.work import LeaseStatusChanged
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.agent.wiring import READ, hand_over
from walras_node_agent.host.opening import opened
from walras_runtime.health import Health
from walras_runtime.kafka.following import Latest


def barriers(number: int) -> dict[str, int]:
    return dict.fromkeys(READ, number)


@pytest.mark.parametrize("turn_between", [False, True])
def test_barriers_that_come_before_the_agent_took_the_table_are_of_the_same_log(
    tmp_path: Path, turn_between: bool
) -> None:
    health = Health()
    settings = AgentSettings(
        kafka_bootstrap="nowhere:1", node="n1", state_directory=str(tmp_path / "agent")
    )
    with opened(settings, "i", health) as agent:
        hand_over(agent, Latest(barriers=barriers(7)), agent.standing.began_to_read())
        if turn_between:
            agent.turn(1_000)
        hand_over(agent, barriers(9), 0)
        agent.turn(2_000)
        assert "log" not in health.faults
        assert agent.keeping.seen == barriers(9)
        hand_over(agent, Latest(barriers=barriers(8)), agent.standing.began_to_read())
        agent.turn(3_000)
        assert LeaseStatusChanged.TOPIC in health.faults["log"]
