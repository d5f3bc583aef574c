"""What a run left behind, as judges read it: the log by steps, and what jobs wrote down."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tests.chaos_drains.terms import USUAL, Times
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import BarrierMark, parse_message

READ: Final = (
    *("nodes", "leases", "vacate", "job.status", "placement.figures", "drain.sessions"),
    *("lease.status", "drain.status", "usage", "node.health"),
)
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record: the step that it belongs to, and when the log got it (wall clock).

    ``event`` None: a tombstone.
    """

    step: int
    stamp_ms: int
    key: str
    event: Event | None
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a process of a job: it lived from start to last, on the wall clock.

    ``is_first``: of its part; others are its children.
    """

    team: str
    job: str
    lease: str
    node: str
    pid: int
    is_first: bool
    start_ms: int
    last_ms: int


@dataclass(slots=True)
class History:
    """All of a run.

    ``entries`` are those of each topic by step, in the order of each partition; ``barriers`` the
    market time of each step.
    """

    barriers: dict[int, int] = field(default_factory=dict)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    lives: list[Life] = field(default_factory=list)
    times: Times = USUAL

    def of(self, model: type[E]) -> Iterator[tuple[Entry, E]]:
        """Yield the events of a model with their entries."""
        for entry in self.entries.get(model.TOPIC, ()):
            if isinstance(entry.event, model):
                yield entry, entry.event

    def by_step(self, topic: str) -> Mapping[int, Sequence[Entry]]:
        """Return a topic's entries by step."""
        found: dict[int, list[Entry]] = {}
        for entry in self.entries.get(topic, ()):
            found.setdefault(entry.step, []).append(entry)
        return found

    def steps(self) -> list[int]:
        """Return all steps in order, the one behind the last barrier too."""
        numbers = {e.step for entries in self.entries.values() for e in entries}
        return sorted(self.barriers.keys() | numbers)


async def read_history(bootstrap: str, evidence: Path, offset_ms: int, times: Times) -> History:
    """Read the log and the evidence.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    evidence
        The folder that jobs wrote into.
    offset_ms
        Wall clock less time since boot.
    times
        Of the run.
    """
    found = History(times=times)
    for name in READ:
        topic = load_topics()[name]
        entries = found.entries.setdefault(name, [])
        for partition in range(topic.partitions):
            step, waiting = 0, list[tuple[int, str, Event | None, str]]()
            for message in await read_all(bootstrap, topic.full_name, [partition]):
                item = parse_message(message, name)
                if isinstance(item, BarrierMark):
                    number = item.barrier.number
                    found.barriers[number] = item.barrier.market_time_ms
                    entries += (Entry(number, *each) for each in waiting)
                    step, waiting = number + 1, []
                    continue
                event = None if item.value is None else decode_inner(item.type, item.value)
                waiting.append((message.timestamp, item.key, event, item.event_id or ""))
            entries += (Entry(step, *each) for each in waiting)
        entries.sort(key=lambda entry: entry.step)
    found.lives = read_lives(evidence, offset_ms)
    return found


def read_lives(evidence: Path, offset_ms: int) -> list[Life]:
    """Read what all processes wrote down; one that died before it wrote anything is left out."""
    found = (read_life(path, offset_ms) for path in evidence.iterdir())
    lives = [life for life in found if life is not None]
    return sorted(lives, key=lambda life: (life.start_ms, life.lease, life.pid))


def read_life(path: Path, offset_ms: int) -> Life | None:
    """Read the evidence of a process; None: it died before it wrote a whole line."""
    whole, _, _cut_off = path.read_text("utf-8").rpartition("\n")
    return life_of(path.name, whole.splitlines(), offset_ms)


def life_of(name: str, lines: Iterable[str], offset_ms: int) -> Life | None:
    """Return what the lines of a file of evidence say; None: the first is no `start`."""
    words = [line.split() for line in lines]
    if not words or len(words[0]) != 5:
        return None
    lease, node, pid = name.split("@")
    _, start, team, job, what = words[0]
    times = [int(start), *(int(each[1]) for each in words[1:] if len(each) == 2)]
    return Life(
        team,
        job,
        lease,
        node,
        int(pid),
        what == "first",
        times[0] + offset_ms,
        max(times) + offset_ms,
    )
