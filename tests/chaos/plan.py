"""Which disturbances a chaos run has, and when: a pure function of the seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PARTITIONS: Final = 4
HEAD_STEPS: Final = 4
"""Nothing is disturbed before them."""
TAIL_STEPS: Final = 8
"""Without use at the end: all is rated and settled in them."""
LEAST_STEPS: Final = 60
MOST_STEPS: Final = 400
EVENTS_PER_STEP: Final = 500
"""Of a run that has between the least and the most steps."""
USED_PERCENT: Final = 90
"""In so many of the steps there is use for certain; drains use up some records sooner."""
LONGEST_DELAY_MS: Final = 120
STEPS_EACH: Final = 4
"""A disturbance of processes writes at most so many steps itself."""
LOOK_BACK_STEPS: Final = 20
"""So many steps later use is forgotten; nothing else is so late."""
MOST_STALE_STEPS: Final = LOOK_BACK_STEPS + 4


class Kind(StrEnum):
    """What is done."""

    KILL = "kill"
    """SIGKILL of a worker from outside, at any time."""
    KILL_IN_STEP = "kill_in_step"
    """SIGKILL of a worker in one gap of the step loop."""
    ZOMBIE = "zombie"
    """SIGSTOP of a worker, a successor works, SIGCONT."""
    BROKER = "broker"
    """SIGKILL of the broker, and a restart on the same data."""
    REDIS = "redis"
    """SIGKILL of Redis, and a restart: billing must not care."""
    SLOW = "slow"
    """A worker gets a fraction of the time that it needs."""
    TIMEOUT = "timeout"
    """A worker sleeps in its transaction until the broker aborts it, and has no successor."""
    TOGETHER = "together"
    """One of those before, and the death of another worker in the middle of it."""
    DUPLICATED = "duplicated"
    """Usage is written twice, at once and again later."""
    REORDERED = "reordered"
    """Usage of a few steps comes in any order."""
    LATE_USAGE = "late_usage"
    """A lease's usage comes long after its price grace."""
    STALE_USAGE = "stale_usage"
    """Usage comes again when it is forgotten, and other usage that overlaps it: none is charged."""
    LATE_PRICE = "late_price"
    """A price is held back, or published again with another value."""
    ACCOUNT = "account"
    """A pool's weight, incomes and teams change."""
    PRICE_GAP = "price_gap"
    """A market says nothing for a while; the first cycle behind that publishes what it was."""
    FINANCE = "finance"
    """Invoices are held, released and voided, each request twice."""


OF_THE_LOG: Final = (
    *(Kind.DUPLICATED, Kind.REORDERED, Kind.LATE_USAGE, Kind.STALE_USAGE, Kind.LATE_PRICE),
    *(Kind.ACCOUNT, Kind.PRICE_GAP, Kind.FINANCE),
)
"""What is in the input; all others happen to processes."""
OF_PROCESSES: Final = tuple(kind for kind in Kind if kind not in OF_THE_LOG)


class Gap(StrEnum):
    """A place in the step loop; see the table at the top of its module."""

    BEFORE_CLAIM = "before_claim"
    BEFORE_RESTORE = "before_restore"
    BEFORE_DECISION = "before_decision"
    BEFORE_TRANSACTION = "before_transaction"
    IN_TRANSACTION = "in_transaction"
    BEHIND_COMMIT_REQUEST = "behind_commit_request"
    AFTER_COMMIT = "after_commit"


AT_START: Final = (Gap.BEFORE_CLAIM, Gap.BEFORE_RESTORE)
IN_A_STEP: Final = tuple(gap for gap in Gap if gap not in AT_START)
OF_A_ZOMBIE: Final = tuple(gap for gap in IN_A_STEP if gap is not Gap.BEHIND_COMMIT_REQUEST)
"""Behind the request a process can only die: what it awaits is the broker's answer."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance, and what its kind needs to know.

    ``step`` is where it begins. ``steps`` is how long it lasts, or how late something comes.
    ``draw`` chooses among the services, or among what the input has at that place.
    """

    kind: Kind
    step: int
    partition: int
    gap: Gap
    delay_ms: int
    steps: int
    draw: int

    def describe(self) -> str:
        """Return it in words."""
        words = {
            Kind.KILL: "SIGKILL of a worker",
            Kind.KILL_IN_STEP: f"SIGKILL of a worker {self.gap.replace('_', ' ')}",
            Kind.ZOMBIE: f"SIGSTOP of a worker {self.gap.replace('_', ' ')}, SIGCONT later",
            Kind.BROKER: "SIGKILL of the broker",
            Kind.REDIS: "SIGKILL of Redis",
            Kind.SLOW: "a slow worker",
            Kind.TIMEOUT: "a transaction that outlives its timeout",
            Kind.TOGETHER: "two at once",
            Kind.DUPLICATED: f"usage written twice, and again {self.steps} steps later",
            Kind.REORDERED: f"usage of {self.steps} steps in any order",
            Kind.LATE_USAGE: f"usage that is {self.steps} steps late",
            Kind.STALE_USAGE: f"usage that comes again {self.steps} steps later, forgotten by then",
            Kind.LATE_PRICE: f"a price that is {self.steps} steps late",
            Kind.ACCOUNT: "a pool's weight, incomes and teams change",
            Kind.PRICE_GAP: f"a market without prices for {self.steps} steps",
            Kind.FINANCE: f"invoices are held for {self.steps} steps, and voided",
        }
        return f"step {self.step}: {words[self.kind]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run: its size, and its disturbances in the order of their steps.

    ``steps`` have use; ``TAIL_STEPS`` without follow.
    """

    seed: int
    events: int
    steps: int
    disturbances: tuple[Disturbance, ...]

    @property
    def leases(self) -> int:
        """How many leases run at any time; each writes one usage record a step."""
        return -(-self.events // self.steps)

    @property
    def all_steps(self) -> int:
        """Number of steps: the first one has accounts and prices, those at the end no use."""
        return 1 + self.steps + TAIL_STEPS

    def of_processes(self) -> list[Disturbance]:
        """Return what happens to processes."""
        return [each for each in self.disturbances if each.kind in OF_PROCESSES]

    def of_the_log(self) -> list[Disturbance]:
        """Return what is in the input."""
        return [each for each in self.disturbances if each.kind in OF_THE_LOG]


def plan_of(seed: int, events: int, disturbances: int, kinds: Sequence[Kind] = tuple(Kind)) -> Plan:
    """Return the plan of a seed: each kind once, the rest drawn, in random order.

    Parameters
    ----------
    seed, events, disturbances
        What the run is asked for.
    kinds
        What may happen.

    Raises
    ------
    ValueError
        There are fewer disturbances than kinds, or no use at all.
    """
    if disturbances < len(kinds) or events < 1:
        raise ValueError(
            f"{len(kinds)} kinds need as many disturbances, and an event: "
            f"{disturbances} disturbances, {events} events"
        )
    chooser = random.Random(f"{seed}/{events}/{disturbances}")
    drawn = [*kinds, *(chooser.choice(kinds) for _ in range(disturbances - len(kinds)))]
    chooser.shuffle(drawn)
    happening = sum(kind in OF_PROCESSES for kind in drawn)
    least = max(LEAST_STEPS, HEAD_STEPS + STEPS_EACH * (happening + 1))
    steps = max(least, min(MOST_STEPS, events // EVENTS_PER_STEP))
    places = _places(chooser, steps, happening)
    used = steps * USED_PERCENT // 100
    found = []
    for kind in drawn:
        # What is stale must still come before the end.
        last = min(used, steps - MOST_STALE_STEPS) if kind is Kind.STALE_USAGE else used
        step = places.pop(0) if kind in OF_PROCESSES else chooser.randrange(HEAD_STEPS, last)
        found.append(_disturbance(chooser, kind, step))
    return Plan(seed, events, steps, tuple(sorted(found, key=lambda each: each.step)))


def _places(chooser: random.Random, steps: int, count: int) -> list[int]:
    """Return ascending steps, ``STEPS_EACH`` or more apart, for what happens to processes."""
    spare = steps - HEAD_STEPS - STEPS_EACH * count
    offsets = sorted(chooser.randrange(spare) for _ in range(count))
    return [HEAD_STEPS + STEPS_EACH * index + offset for index, offset in enumerate(offsets)]


def _disturbance(chooser: random.Random, kind: Kind, step: int) -> Disturbance:
    gaps = {Kind.KILL_IN_STEP: tuple(Gap), Kind.ZOMBIE: OF_A_ZOMBIE}
    lengths = {
        Kind.SLOW: (2, STEPS_EACH),
        Kind.DUPLICATED: (1, 12),
        Kind.REORDERED: (2, 3),
        Kind.LATE_USAGE: (3, 15),
        Kind.STALE_USAGE: (LOOK_BACK_STEPS, MOST_STALE_STEPS),
        Kind.LATE_PRICE: (2, 12),
        Kind.PRICE_GAP: (2, 8),
        Kind.FINANCE: (2, 20),
    }
    return Disturbance(
        kind,
        step,
        partition=chooser.randrange(PARTITIONS),
        gap=chooser.choice(gaps.get(kind, (Gap.IN_TRANSACTION,))),
        delay_ms=chooser.randrange(LONGEST_DELAY_MS),
        steps=chooser.randint(*lengths.get(kind, (1, 2))),
        draw=chooser.randrange(1 << 30),
    )
