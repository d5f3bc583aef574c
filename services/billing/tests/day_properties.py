"""What holds of every day: kills, another order inside a step, and a replay change nothing."""

from collections.abc import Callable
from typing import Any

from services.billing.tests.billing_bench import INPUTS, Bench
from walras_runtime.memory.runner import state_digest_input

Day = Callable[..., None]
"""Does the steps of a day on a bench, by a seed; ``shuffle``: in another order inside each step."""
OUTPUTS = ("charges", "charges.pending", "usage.quarantined", "usage.settled", "ledger", "balances")


def expect_no_crash_to_show(day: Day, seed: int) -> None:
    """Expect the same log from processes that are new in every step, also beyond the look-back."""
    whole, crashed = Bench(look_back_ms=1_200_000), Bench(crash=True, look_back_ms=1_200_000)
    day(seed, whole)
    day(seed, crashed)

    assert crashed.log.entries == whole.log.entries


def expect_no_order_to_show(day: Day, seed: int) -> None:
    """Expect the same lines and the same state from a shuffled day."""
    straight, shuffled = Bench(), Bench()
    day(seed, straight)
    day(seed, shuffled, shuffle=True)

    assert shuffled.charges() == straight.charges()
    assert shuffled.credits() == straight.credits()
    assert shuffled.pending() == straight.pending()
    assert state_digest_input(shuffled.log, "billing") == state_digest_input(
        straight.log, "billing"
    )


def expect_the_same_from_a_replay(day: Day, seed: int, **settings: Any) -> None:
    """Expect the same keys and payloads from the inputs alone, all there before the first step."""
    bench, again = Bench(**settings), Bench(**settings)
    day(seed, bench)
    for where, entries in bench.log.entries.items():
        if where[0] in INPUTS:
            again.log.entries[where] = list(entries)
    again.catch_up()

    for topic in OUTPUTS:
        for partition in bench.log.partitions(topic):
            assert again.log.read(topic, partition, 0) == bench.log.read(topic, partition, 0)
