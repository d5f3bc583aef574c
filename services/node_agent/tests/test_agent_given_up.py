"""The agent comes back to leases that were given up while it was away: it starts none of them."""

from pathlib import Path

from services.node_agent.tests.agent_rig import rig


def test_what_was_granted_and_given_up_while_the_agent_was_away_is_freed_without_a_start(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        node.until(node.heartbeats, "the agent")
        node.kill()
        node.agent = None
        node.grant("deaf", lease="l1", devices=(0,))
        node.grant("deaf", lease="l2", devices=(1,))
        # Its node was lost: placement says so of l1, and l2 came when the node was back.
        node.grant("deaf", lease="l1", devices=(0,), may_start=False)
        node.start()
        node.until_running("l2")
        assert node.statuses("l1") == [("accepted", "")]
        node.drain("l1")

        assert node.until_freed("l1").outcome.value == "vacated"
        assert node.job_says("l1") == []
        assert node.usage("l1") == []


def test_a_gang_that_was_accepted_and_given_up_is_not_started_by_an_agent_that_remembers_it(
    tmp_path: Path,
) -> None:
    with rig(tmp_path) as node:
        node.grant("deaf", parts=2, may_start=False)
        node.until(lambda: node.statuses() == [("accepted", "")], "accepted")
        node.kill()
        node.agent = None
        node.grant("deaf", parts=2, may_start=True)
        node.grant("deaf", parts=2, may_start=False)
        node.start()
        node.grant("deaf", lease="l2", devices=(1,))
        node.until_running("l2")

        assert node.processes("l1") == []
        assert node.statuses("l1") == [("accepted", "")]
