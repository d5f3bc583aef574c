"""The contract between the one step loop and a deciding stage.

A stage is pure: it holds state in memory and decides step by step; it never waits, reads a clock
or touches a network. The loop restores it, feeds it and commits what it decided.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output, Record, Step, StepResult

PARTITION_KEYS: Final = 1 << 17
"""So many keys (teams, mostly) are remembered with their partitions: hashing them anew for every
output would be a good part of packing it."""

_partition_of = lru_cache(PARTITION_KEYS)(partition_of)


@dataclass(frozen=True, slots=True)
class Input:
    """One topic that a stage reads.

    Parameters
    ----------
    topic
        Short name in the registry.
    own_partition
        Only the stage's own partition; otherwise all of them.
    lag
        Step n sees the records up to barrier n - lag. Feedback has a lag of at least 1, so that
        the waits have no cycle (step protocol §1).
    table
        The topic holds the latest record of each key: on a restart it is folded again from its
        beginning up to the stage's position; with a lag on a compacted topic, from a mirror in
        the stage's own state topic (:mod:`walras_runtime.tables`). Otherwise the stage's state is
        all that it remembers of the input.
    raw
        Payloads are not decoded: the stage judges bytes from outside itself.
    may_be_late
        When running live, a partition of it that stays behind is not waited for beyond the
        alignment timeout.
    """

    topic: str
    own_partition: bool = False
    lag: int = 0
    table: bool = False
    raw: bool = False
    may_be_late: bool = True


class Stage(Protocol):
    """A deciding stage for one partition (spread services) or for all (single leaders)."""

    def fold(self, record: Record) -> None:
        """Take a record of a table input into the state; the last record of a key wins.

        Called for every record of a table input before :meth:`step` sees it, and on a restart
        for the same records again.
        """

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the stage's own state topic on a restart."""

    def step(self, step: Step) -> StepResult:
        """Decide step n. Must depend on the state and ``step`` only."""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """How a stage is wired.

    Parameters
    ----------
    service
        Name of the service; its state topic is ``state.<service>``.
    inputs
        What it reads, in the order in which records are handed over.
    outputs
        Topics it writes; where the registry says that the producer writes barriers, the loop
        writes barrier n into them with the outputs of step n.
    build
        Makes an empty stage for a partition (0 for single leaders).
    spread
        One stage per partition; otherwise a single leader with hot standbys.
    """

    service: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    build: Callable[[int], Stage]
    spread: bool = False

    @property
    def state_topic(self) -> str:
        """Short name of the stage's own state topic."""
        return f"state.{self.service}"

    def target(self, output: Output, topic: Topic, partition: int) -> int:
        """Return the partition that an output of the stage of ``partition`` goes to.

        Raises
        ------
        InvariantBrokenError
            A stage spread by partition wrote into another one's partition: its records would lie
            between any two barriers there (step protocol §1).
        """
        target = output.partition
        if target is None:
            target = _partition_of(output.partition_key, topic.partitions)
        if self.spread and topic.barriers == "producer" and target != partition:
            raise InvariantBrokenError(
                f"{self.service}/{partition} wrote {output.key!r} to {topic.name}/{target}"
            )
        return target
