"""Who leaves when quota is lost (design §5): few jobs, little lost work, good score, low limit.

Whole jobs leave. Among all sets of jobs that free enough, the one that comes first by

1. its number of jobs,
2. the work that is lost: what its jobs have done in this run, in macc · ms, except for those that
   declare that they checkpoint when they are warned,
3. how badly they leave, by their drainability scores: what each lacks to the best one, summed,
4. the sum of their limits, a job without a limit counting as above every limit,
5. youth: of two sets that differ nowhere else, the one that spares the longest runner

is chosen. How much must be freed and by how many jobs is known then, so this is a small knapsack:
jobs of one size leave cheapest first, and sizes are gone through from the largest down, keeping the
cheapest way to every (jobs, macc) that no other way beats. The fewest jobs that free enough are
only just enough, so nearly all the largest must be among them and few ways are left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from walras_contracts.demand import Drainability
from walras_contracts.quantities import PPM
from walras_placement.jobs import Job
from walras_placement.teams import limit_or_above

UNKNOWN_SCORE_PPM = PPM // 2
"""Of a job that the drain service has not scored: neither good nor bad."""

Cost = tuple[int, int, int, int]
"""Lost work, missing score, limits, and who it is: the bit of a job is the higher the longer it has
run. Costs of disjoint sets add up, and no two sets cost the same."""
NOTHING: Cost = (0, 0, 0, 0)
Ways = dict[tuple[int, int], Cost]
"""The least cost by number of jobs and macc freed, the latter counted up to what is needed."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs of one size: what the cheapest n of them cost, by n; the place of its first job."""

    size_macc: int
    first: int
    costs: tuple[Cost, ...]


def choose_victims(
    jobs: Sequence[Job], excess_macc: int, now_ms: int, scores_ppm: Mapping[str, int]
) -> list[Job]:
    """Return whole jobs whose leaving frees at least ``excess_macc``, in queue order.

    Parameters
    ----------
    jobs
        Running jobs of one team in one market.
    excess_macc
        How much must be freed; all jobs are returned where they do not hold so much.
    now_ms
        Market time; the lost work counts up to it.
    scores_ppm
        Drainability by job key.
    """
    if excess_macc <= 0:
        return []
    ordered = sorted(jobs, key=_youth)
    sizes = sorted((job.held_lease().size_macc for job in ordered), reverse=True)
    sums = [0, *accumulate(sizes)]
    if sums[-1] <= excess_macc:
        return sorted(ordered, key=_queue_order)
    fewest = next(count for count, total in enumerate(sums) if total >= excess_macc)
    ways: Ways = {(0, 0): NOTHING}
    for group in _groups(ordered, now_ms, scores_ppm):
        ways = _extended(ways, group, fewest, excess_macc, sums)
    *_, chosen = ways[fewest, excess_macc]
    victims = [job for bit, job in enumerate(ordered) if chosen >> bit & 1]
    return sorted(victims, key=_queue_order)


def lost_work(job: Job, now_ms: int) -> int:
    """Return what is lost if a running job leaves now, in macc · ms."""
    if job.entry().drainability is Drainability.CHECKPOINT:
        return 0
    lease = job.held_lease()
    return lease.size_macc * max(0, now_ms - lease.granted_ms)


def missing_score_ppm(job: Job, scores_ppm: Mapping[str, int]) -> int:
    """Return what a job's drainability lacks to the best one."""
    return max(0, PPM - scores_ppm.get(job.key, UNKNOWN_SCORE_PPM))


def _groups(ordered: Sequence[Job], now_ms: int, scores_ppm: Mapping[str, int]) -> Iterator[_Group]:
    """Yield the jobs by size, largest first, each group with the costs of its cheapest ones."""
    by_size: dict[int, list[Cost]] = {}
    for bit, job in enumerate(ordered):
        missing_ppm = missing_score_ppm(job, scores_ppm)
        cost = (lost_work(job, now_ms), missing_ppm, limit_or_above(job), 1 << bit)
        by_size.setdefault(job.held_lease().size_macc, []).append(cost)
    first = 0
    for size_macc in sorted(by_size, reverse=True):
        costs = sorted(by_size[size_macc])
        yield _Group(size_macc, first, tuple(accumulate(costs, _plus, initial=NOTHING)))
        first += len(costs)


def _extended(
    ways: Ways, group: _Group, fewest: int, excess_macc: int, sums: Sequence[int]
) -> Ways:
    """Return the ways that take some of a group, too, and can still free enough."""
    found: Ways = {}
    after = group.first + len(group.costs) - 1
    for (taken, freed), cost in ways.items():
        for number, more in enumerate(group.costs[: fewest - taken + 1]):
            total = freed + number * group.size_macc
            end = after + fewest - taken - number
            if end >= len(sums) or total + sums[end] - sums[after] < excess_macc:
                continue
            way = (taken + number, min(total, excess_macc))
            sum_cost = _plus(cost, more)
            if way not in found or sum_cost < found[way]:
                found[way] = sum_cost
    return _undominated(found)


def _undominated(ways: Ways) -> Ways:
    """Drop the ways that free no more and cost more than another with as many jobs."""
    kept: Ways = {}
    last_taken, cheapest = -1, NOTHING
    for (taken, freed), cost in sorted(ways.items(), reverse=True):
        if taken != last_taken or cost < cheapest:
            kept[taken, freed] = cheapest = cost
            last_taken = taken
    return kept


def _plus(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _youth(job: Job) -> tuple[int, int, str]:
    """Sort the youngest first, then the last in the queue."""
    return (-job.held_lease().granted_ms, -job.entry().position, job.job)


def _queue_order(job: Job) -> tuple[int, str]:
    return job.order
