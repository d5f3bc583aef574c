"""Which teams cannot use their quota for the first job of their queue (rounding ``release``).

Clearing cuts the demand of such teams for the next cycle (decision 20). A job stays in the list
while it waits, whether or not its team has quota left over: once the demand is cut there is none.
For the same reason its turn, once it began, does not depend on what could overtake it just now.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from walras_contracts.accounts import Rounding
from walras_contracts.placing import STUCK_MAX, STUCK_TEAMS_OF_A_POOL, StuckHead
from walras_placement.jobs import Job
from walras_placement.keeping import covers
from walras_placement.rules import Moment, Rules
from walras_placement.setting_aside import fitting_macc
from walras_placement.state import PlacementState
from walras_placement.teams import RunBook, TeamJobs
from walras_placement.turns import has_turn, is_in_turn


@dataclass(slots=True)
class _First:
    """The first pending job that could use a market, and whether a smaller one waits behind it."""

    job: Job
    size_macc: int
    has_smaller_behind: bool = False


def stuck_heads(
    state: PlacementState, moment: Moment, rules: Rules
) -> dict[str, tuple[StuckHead, ...]]:
    """Return by market the first jobs that have waited long, youngest first.

    Of each pool those whose turn it is, the oldest of them, and the youngest of the others.
    """
    markets = {
        market: None
        for market, rounding in sorted(state.policies.roundings.items())
        if rounding is Rounding.RELEASE
    }
    if not markets:
        return {}
    found: dict[str, list[StuckHead]] = {market: [] for market in markets}
    for team in sorted(state.teams):
        wanted = {m: None for m in markets if m in state.quotas.get(team, {})}
        if not wanted:
            continue
        for market, first in _firsts(state, moment, team, wanted).items():
            head = _stuck(state, moment, rules, market, first)
            if head is not None:
                found[market].append(head)
    return {market: chosen(heads) for market, heads in found.items()}


def chosen(heads: Iterable[StuckHead]) -> tuple[StuckHead, ...]:
    """Return the stuck heads that are told, youngest first."""
    youngest_first = sorted(heads, key=lambda head: (-head.pending_since_ms, head.team))
    turns = _of_each_pool([h for h in reversed(youngest_first) if h.has_turn])
    others = _of_each_pool([h for h in youngest_first if not h.has_turn])
    told = {head.team: None for head in (*turns, *others)[:STUCK_MAX]}
    return tuple(head for head in youngest_first if head.team in told)


def _of_each_pool(heads: Iterable[StuckHead]) -> list[StuckHead]:
    of_pool: dict[str, int] = {}
    first = []
    for head in heads:
        of_pool[head.pool] = of_pool.get(head.pool, 0) + 1
        if of_pool[head.pool] <= STUCK_TEAMS_OF_A_POOL:
            first.append(head)
    return first


def _firsts(
    state: PlacementState, moment: Moment, team: str, wanted: dict[str, None]
) -> dict[str, _First]:
    quotas = state.quotas[team]
    firsts: dict[str, _First] = {}
    settled = 0
    for _, job in state.teams[team].pending:
        if settled == len(wanted):
            break
        entry = job.entry()
        for market in entry.types:
            if market not in wanted or not covers(entry, quotas[market].price_micro or 0):
                continue
            first = firsts.get(market)
            if first is None:
                # What must not start now, or can nowhere, keeps no other job waiting.
                is_barred = job.parked_until_ms > moment.now_ms or job.is_held_back(moment.step)
                if not is_barred and entry.size_macc <= fitting_macc(state.devices, market, entry):
                    firsts[market] = _First(job, entry.size_macc)
            elif not first.has_smaller_behind and entry.size_macc < first.size_macc:
                first.has_smaller_behind = True
                settled += 1
    return firsts


def _stuck(
    state: PlacementState,
    moment: Moment,
    rules: Rules,
    market: str,
    first: _First,
) -> StuckHead | None:
    job = first.job
    waited_steps = moment.step - job.pending_since_step
    if waited_steps < rules.steps(rules.stuck_after_cycles):
        return None
    waited_cycles = waited_steps // rules.cycle_every
    needed_macc = state.devices.whole_macc(market, job.entry().size_macc)
    outcome = state.outcomes.get(job.team)
    unspent_macc = outcome.unspent.get(market, 0) if outcome is not None else 0
    team = state.teams[job.team]
    running = team.books.get(market) or RunBook()
    is_overtaken = (
        first.has_smaller_behind or _was_overtaken(team, running, job, needed_macc)
    ) and not _starts_when_one_ends(running, needed_macc - unspent_macc)
    return StuckHead(
        pool=job.entry().pool,
        team=job.team,
        job=job.job,
        reason=job.reason,
        needed_macc=needed_macc,
        allocated_macc=state.quotas[job.team][market].allocated_macc,
        unspent_macc=unspent_macc,
        pending_since_ms=job.pending_since_ms,
        waited_cycles=waited_cycles,
        has_turn=has_turn(waited_cycles) and (is_overtaken or is_in_turn(job, moment, rules)),
    )


def _was_overtaken(team: TeamJobs, running: RunBook, first: Job, needed_macc: int) -> bool:
    """Whether a smaller job from behind it runs for money that began while a first job waited.

    Where few come, each may start at once in what is left of the quota, and never wait behind it.
    """
    rank = team.rank(first)
    return any(
        job.held_lease().granted_ms > first.pending_since_ms
        and job.held_lease().size_macc < needed_macc
        and job.queued is not None
        and team.rank(job) > rank
        for job in running.paid.values()
    )


def _starts_when_one_ends(running: RunBook, lacking_macc: int) -> bool:
    """Whether the end of some job that runs for money leaves the quota that a first job lacks."""
    return any(job.held_lease().size_macc >= lacking_macc for job in running.paid.values())
