"""What random days of charges and credits share: what arrives when, and what is made of it."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from services.billing.tests.billing_bench import Bench, pool, price
from services.billing.tests.charge_audit import faults
from walras_runtime.records import Output

Mixing = Callable[[list[Output], random.Random], list[Output]]
"""Returns the outputs of a step in another order."""


def mixed(given: list[Output], order: random.Random) -> list[Output]:
    """Return outputs in any other order."""
    return order.sample(given, len(given))


class RandomDay:
    """What the outside writes on a day, by the minute in which the log gets it.

    All is a function of the seed; ``draw`` is what draws it. The three teams of pool ``p`` earn
    something else each, and one of them nothing.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._order = random.Random(seed + 1)
        self._arriving: dict[int, list[Output]] = defaultdict(list)
        self.put(0, pool({"t1": 2, "t2": 5, "t3": 0}))

    def put(self, minute: int, *outputs: Output) -> None:
        """Let outputs arrive in a minute, behind what arrives in it already."""
        self._arriving[minute] += outputs

    def put_some_price(self, minute: int, lag: int) -> None:
        """Let a price of a minute arrive so much later; it may be none, and nothing."""
        self.put(minute + lag, price(minute, self.draw.choice((None, 0, 70_001, 99_991))))

    def put_once_or_twice(self, minute: int, output: Output) -> None:
        """Let an output arrive in a minute, now and then repeated."""
        for _ in range(self.draw.choice((1, 1, 2))):
            self.put(minute, output)

    def play(self, bench: Bench, minutes: int, mixing: Mixing | None = None) -> None:
        """Do the steps of the day, a minute each; each in another order where it is mixed."""
        for minute in range(minutes):
            given = self._arriving.get(minute, [])
            bench.step(minute, *(mixing(given, self._order) if mixing is not None else given))


def kinds_of(bench: Bench) -> set[str]:
    """Return the reasons of all charges and quarantines."""
    return {line.reason.value for line in bench.charges()} | {
        line.code for line in bench.quarantined()
    }


def expect_tampering_to_show(
    bench: Bench, field: str, others: Mapping[str, object], holding: str = "charge_id"
) -> None:
    """Expect the audit to refuse the first record on ``charges`` that holds a field, once changed.

    ``others`` says what is put in the place of a field; any other field grows by 1.
    """
    for partition in bench.log.partitions("charges"):
        held = bench.log.entries.get(("charges", partition), [])
        for index, entry in enumerate(held):
            document = json.loads(entry.payload or b"{}") if entry.barrier is None else {}
            if holding not in document:
                continue
            document[field] = others[field] if field in others else document[field] + 1
            held[index] = replace(entry, payload=json.dumps(document).encode())
            assert faults(bench.log)
            return
    raise AssertionError(f"no record that holds {holding} to tamper with")
