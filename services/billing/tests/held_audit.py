"""An independent audit of the time held: what was published by each step, from the usage records.

It shares no code with billing. For each settlement it looks at the records that lay before its
barrier, takes away what lower numbers and attempts claimed by then and what was given up, and
compares the sums by job and five minutes with the sum of all that was published up to there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from services.billing.tests.charge_audit import GRACE_MS, part_of, read, source_of
from walras_runtime.memory.log import MemoryLog

FIVE_MINUTES_MS = 300_000
KINDS = ("held", "occupied", "allocated", "idle", "unmeasured")
Document = dict[str, Any]
Job = tuple[str, str, str, str, int]
"""Team, pool, job, market, boundary."""


@dataclass
class Story:
    """What is on a log, with the number of the barrier behind it."""

    times_ms: list[int] = field(default_factory=list)
    usage: list[tuple[int, Document]] = field(default_factory=list)
    given_up: dict[str, list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By record: barrier, start and end of what waited too long for a price."""
    published: list[tuple[int, Document]] = field(default_factory=list)


def story_of(log: MemoryLog) -> Story:
    """Read a log; records that are quarantined whole are left out."""
    seen = read(log)
    story = Story(times_ms=seen.barriers, usage=[*seen.usage.values()])
    for number, body in _records(log, "usage.quarantined"):
        if body.get("code") == "never_priced":
            span = (number, body["start_ms"], body["end_ms"])
            story.given_up[body["record"]].append(span)
    story.published += _records(log, "usage.settled")
    return story


def _records(log: MemoryLog, topic: str) -> Iterator[tuple[int, Document]]:
    for partition in log.partitions(topic):
        number = 0
        for entry in log.read(topic, partition, 0):
            if entry.barrier is not None:
                number = entry.barrier.number + 1
            else:
                yield number, json.loads(entry.payload or b"")


def faults(log: MemoryLog) -> list[str]:
    """Return what is wrong with the time held on a log; empty: nothing."""
    story = story_of(log)
    wrong, settled_ms = [], None
    due = {n for n, body in story.published}
    for number, time_ms in enumerate(story.times_ms):
        boundary_ms = (time_ms - GRACE_MS) // FIVE_MINUTES_MS * FIVE_MINUTES_MS
        if settled_ms is None or boundary_ms <= settled_ms:
            settled_ms = settled_ms or boundary_ms
            wrong += [f"barrier {number}: nothing is settled"] if number in due else []
            continue
        settled_ms = boundary_ms
        expected = _expected(story, number, boundary_ms)
        found = _published(story, number)
        for job in sorted(expected.keys() | found.keys()):
            if expected[job] != found[job]:
                wrong.append(f"barrier {number}: {job}: {found[job]}, not {expected[job]}")
        wrong += _wrong_records(story, number, boundary_ms)
    return wrong


def _wrong_records(story: Story, number: int, settled_ms: int) -> Iterator[str]:
    jobs: Counter[Job] = Counter()
    for at, body in story.published:
        if at == number:
            jobs[_job(body)] += 1
            if body["settled_ms"] != settled_ms or body["boundary_ms"] > settled_ms:
                yield f"barrier {number}: {body} is of another settlement than {settled_ms}"
            if not any(int(body[f"{kind}_macc_ms"]) for kind in KINDS):
                yield f"barrier {number}: {body} says nothing"
    yield from (f"barrier {number}: {job} twice" for job, count in jobs.items() if count > 1)


Amounts = dict[Job, dict[str, int]]


def _published(story: Story, number: int) -> Amounts:
    """Return all that was published up to a step."""
    found: Amounts = defaultdict(lambda: dict.fromkeys(KINDS, 0))
    for at, body in story.published:
        if at <= number:
            for kind in KINDS:
                found[_job(body)][kind] += int(body[f"{kind}_macc_ms"])
    return found


def _job(body: Document) -> Job:
    names = body["team"], body["pool"], body["job"], body["market"]
    return (*names, body["boundary_ms"])


def _expected(story: Story, number: int, settled_ms: int) -> Amounts:
    """Return what was held by all that lay before a barrier."""
    found: Amounts = defaultdict(lambda: dict.fromkeys(KINDS, 0))
    known = [body for at, body in story.usage if at <= number]
    by_part: dict[str, list[Document]] = defaultdict(list)
    for body in known:
        by_part[part_of(body)].append(body)
    for use in known:
        if use["end_ms"] + GRACE_MS > story.times_ms[number] or use["end_ms"] > settled_ms:
            continue
        at_ms = (use["end_ms"] + FIVE_MINUTES_MS - 1) // FIVE_MINUTES_MS * FIVE_MINUTES_MS
        job = (use["team"], use["pool"], use["job"], use["market"], at_ms)
        given_up = [
            (start_ms, end_ms)
            for at, start_ms, end_ms in story.given_up[f"{source_of(use)}/{use['seq']}"]
            if at <= number
        ]
        for kind, macc_ms in zip(
            KINDS, _amounts(use, by_part[part_of(use)], given_up), strict=True
        ):
            found[job][kind] += macc_ms
    return found


def _amounts(
    use: Document, rivals: list[Document], given_up: list[tuple[int, int]]
) -> tuple[int, ...]:
    """Return held, occupied, allocated, idle and unmeasured macc·ms of one record."""
    length_ms = use["end_ms"] - use["start_ms"]
    edges = {use["start_ms"], use["end_ms"]}
    for other in rivals:
        edges |= {other["start_ms"], other["end_ms"]}
    for span in given_up:
        edges |= {*span}
    kept_ms = 0
    inside = sorted(at for at in edges if use["start_ms"] <= at <= use["end_ms"])
    for start_ms, end_ms in pairwise(inside):
        is_claimed = any(
            (other["attempt"], other["seq"]) < (use["attempt"], use["seq"])
            and other["start_ms"] <= start_ms < other["end_ms"]
            for other in rivals
        )
        if not is_claimed and not any(a <= start_ms < b for a, b in given_up):
            kept_ms += end_ms - start_ms
    occupied = allocated = idle = 0
    running_ms, busy_ms = use.get("running_ms"), use.get("busy_ms")
    told = [0, *[n for n in (busy_ms, running_ms) if n is not None], length_ms]
    if kept_ms == length_ms and told == sorted(told):
        occupied = busy_ms or 0
        idle = length_ms - running_ms if running_ms is not None else 0
        if busy_ms is not None and running_ms is not None:
            allocated = running_ms - busy_ms
    rest = kept_ms - occupied - allocated - idle
    return tuple(use["quantity_macc"] * ms for ms in (kept_ms, occupied, allocated, idle, rest))
