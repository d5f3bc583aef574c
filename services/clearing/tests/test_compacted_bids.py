"""What a compacted queue says after a restart: tombstones end jobs, and are no text (O13)."""

from typing import Any

from walras_contracts.demand import JobQueued
from walras_runtime.records import tombstone


def test_o13_a_job_that_was_ended_bids_nothing_after_compaction_and_a_restart(kit: Any) -> None:
    world = kit.world()
    world.feed(
        world.document(kit.pool("pool-0", 10_000_000, {"team-a": 1, "team-b": 1})),
        kit.supply("a100", 3000),
        kit.queued("team-a", "job", 1000, limit=3_000_000, gang=False),
    )
    runner = world.runner()
    runner.advance()
    assert list(world.folded("a100")[0][0]) == ["team-a/job"]
    world.feed(
        tombstone(JobQueued, "team-a/job", "team-a"),
        kit.queued("team-b", "job", 1000, limit=2_000_000, gang=False),
    )
    runner.advance()
    world.log.compact("queue")
    world.log.compact("state.clearing")
    world.feed()
    restarted = world.runner()
    restarted.advance()

    jobs, teams = world.folded("a100")[2]
    assert (list(jobs), list(teams)) == (["team-b/job"], ["team-b"])
    assert jobs["team-b/job"].limit_micro == 2_000_000
    assert restarted.position.step == 2
    assert [quota.markets for quota in world.quotas("team-a")][-1] == ()
