"""The budget records and alerts that charges, ledger and documents ask for, computed anew.

A team's budgets stand otherwise only where its use did, where a price became known, where other
documents count or another window runs, and where a boundary was settled. Then a stop begins or ends
at once, and an alert is given once a window and threshold; the figures are told at settlements.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from walras.audit.budget_windows import KINDS, NewestPrice, RunningWindows, Spending, Unrated
from walras.audit.expected_ledger import ExpectedLedger
from walras.audit.home_pools import HomePools
from walras.audit.memberships import Member, Memberships
from walras.audit.price_book import PriceBook
from walras.audit.report import rounded_micro
from walras.audit.rows import RATED, SETTLEMENT_MS, Line
from walras.audit.steps import Clock
from walras_contracts.quantities import MICRO_MAX, PPM

NONE, WALLET = "none", "wallet"
NO_POOL_ZONE: Final = "UTC"
"""Zone of the windows of a team that is in no pool."""
Body = dict[str, Any]
Parts = Mapping[int, list[tuple[str, Unrated]]]
"""By step, parts with their teams."""


@dataclass(slots=True)
class BudgetInputs:
    """What the budgets of a partition follow from.

    ``lines``: the charge lines of each team that ever has a budget. ``unrated``: its use without a
    price.
    """

    members: Memberships
    homes: HomePools
    ledger: ExpectedLedger
    book: PriceBook
    clock: Clock
    lines: Mapping[str, Sequence[Line]]
    unrated: Mapping[str, Sequence[Unrated]]


@dataclass(slots=True)
class _Team:
    """How one team stands.

    ``is_empty``: at the last settlement it had nothing, and no income. ``told``: what its last
    record says besides figures.
    """

    is_empty: bool = False
    balance_micro: int = 0
    reason: str = NONE
    told: tuple[str, str, int] | None = None
    spending: Spending = field(default_factory=Spending)
    unrated: set[Unrated] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class BudgetTold:
    """A record or an alert that must be: the step that writes it, and what it says."""

    step: int
    body: Body


@dataclass(slots=True)
class BudgetsTold:
    """All that must be told of the budgets of a partition."""

    records: list[BudgetTold] = field(default_factory=list)
    alerts: list[BudgetTold] = field(default_factory=list)


class ExpectedBudgets:
    """The budgets of one partition of teams, step by step."""

    def __init__(self, inputs: BudgetInputs) -> None:
        self._in = inputs
        self._windows = RunningWindows()
        self._teams: dict[str, _Team] = defaultdict(_Team)
        self._wallets: set[str] = set()
        """Teams whose wallets began."""
        self._members: Mapping[str, Member] = {}
        self._budgeted: set[str] = set()
        self._boundary_ms = 0
        self._told = BudgetsTold()

    def run(self) -> BudgetsTold:
        """Return what must be told up to the last step."""
        given, times_ms = self._in, self._in.clock.times_ms
        self._boundary_ms = max(0, given.ledger.begin_ms)
        boundaries = {step: boundary_ms for boundary_ms, step in given.ledger.boundaries}
        posted: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for row in given.ledger.entries:
            posted[row.step].append((row.team, row.wallet_micro))
        lines = _by_step(given.lines)
        began, ended = _begun_and_ended(given.unrated)
        general = given.book.steps() | given.members.changes | _new_windows(times_ms)
        for step, now_ms in enumerate(times_ms):
            if step in given.members.changes:
                self._members = given.members.at_step(step)
                self._budgeted = self._with_budgets()
            self._wallets.update(given.homes.begun.get(step, ()))
            changed = (began.get(step, ()), ended.get(step, ()), lines.get(step, ()))
            for team, part in changed[0]:
                self._teams[team].unrated.add(part)
            for team, part in changed[1]:
                self._teams[team].unrated.discard(part)
            for team, line in changed[2]:
                self._turn(team, now_ms)
                self._teams[team].spending.charge(line.span, line.numerator)
            is_settled = step in boundaries
            if is_settled:
                self._settle(boundaries[step], step, posted[step])
            self._wallets.update(given.homes.begun_by_budget.get(step, ()))
            if is_settled:
                self._look(step, self._wallets, is_settled=True)
            elif step in general:
                self._look(step, self._budgeted | self._stopped(), is_settled=False)
            else:
                touched = {team for each in changed for team, _ in each}
                self._look(step, touched & self._budgeted, is_settled=False)
        return self._told

    def _with_budgets(self) -> set[str]:
        """Return the teams of the partition with budgets; all of them have a wallet."""
        of_all = self._in.members.budgeted & self._members.keys()
        is_mine = self._in.ledger.is_mine
        return {team for team in of_all if self._members[team].budgets and is_mine(team)}

    def _stopped(self) -> set[str]:
        return {team for team, held in self._teams.items() if held.reason != NONE}

    def _turn(self, team: str, now_ms: int) -> None:
        member = self._members.get(team)
        zone = NO_POOL_ZONE if member is None else member.zone
        self._teams[team].spending.turn(self._windows.at(zone, now_ms))

    def _settle(self, boundary_ms: int, step: int, posted: Iterable[tuple[str, int]]) -> None:
        self._boundary_ms = boundary_ms
        for team, amount in posted:
            self._teams[team].balance_micro += amount
        members = self._in.members.at(boundary_ms, step)
        for team in self._wallets:
            held, member = self._teams[team], members.get(team)
            has_income = member is not None and member.has_income
            held.is_empty = held.balance_micro <= 0 and not has_income

    def _look(self, step: int, teams: Iterable[str], *, is_settled: bool) -> None:
        """See how teams stand, and tell what must be told."""
        now_ms = self._in.clock.times_ms[step]
        newest = _newest(self._in.book, step, now_ms)
        for team in sorted(teams):
            held, member = self._teams[team], self._members.get(team)
            budgets: list[Body] = []
            if member is not None and member.budgets:
                self._turn(team, now_ms)
                budgets = [*_stand(held, member, newest)]
                self._told.alerts += [
                    BudgetTold(step, _alert(team, member, threshold, budget, now_ms))
                    for threshold, budget in _passed(held, member, budgets)
                ]
            before, held.reason = held.reason, _reason(held, budgets)
            pool = self._in.homes.pool(team, step)
            said = (str(pool), held.reason, len(budgets))
            is_new = said != held.told if is_settled else held.reason != before
            if is_new or (is_settled and budgets):
                held.told = said
                body = {
                    "team": team,
                    "pool": pool,
                    "boundary_ms": self._boundary_ms,
                    "at_ms": now_ms,
                    "exhausted": held.reason != NONE,
                    "reason": held.reason,
                    "budgets": budgets,
                }
                self._told.records.append(BudgetTold(step, body))


def _stand(held: _Team, member: Member, newest: NewestPrice) -> Iterator[Body]:
    """Yield how each budget of a team stands, by the length of its window."""
    spent = held.spending.spent(held.unrated, newest)
    for place, kind in enumerate(KINDS):
        for budget in member.budgets:
            if budget.window is kind:
                start_ms, end_ms = held.spending.windows[place]
                yield {
                    "window": kind.value,
                    "start_ms": start_ms,
                    "end_ms": end_ms,
                    "limit_micro": budget.limit_micro,
                    "spent_micro": max(-MICRO_MAX, min(rounded_micro(spent[place]), MICRO_MAX)),
                    "hard_stop": budget.hard_stop,
                }


def _passed(held: _Team, member: Member, budgets: Iterable[Body]) -> Iterator[tuple[int, Body]]:
    """Yield the thresholds that are passed for the first time, with the budgets."""
    alerts = {budget.window.value: budget.alert_ppm for budget in member.budgets}
    places = {kind.value: place for place, kind in enumerate(KINDS)}
    for budget in budgets:
        for threshold in sorted(alerts[budget["window"]]):
            name = (places[budget["window"]], threshold)
            is_passed = budget["spent_micro"] * PPM >= budget["limit_micro"] * threshold
            if is_passed and name not in held.spending.alerted:
                held.spending.alerted.add(name)
                yield threshold, budget


def _alert(team: str, member: Member, threshold_ppm: int, budget: Body, at_ms: int) -> Body:
    return {
        "team": team,
        "pool": member.pool,
        "threshold_ppm": threshold_ppm,
        "budget": budget,
        "at_ms": at_ms,
    }


def _reason(held: _Team, budgets: Iterable[Body]) -> str:
    """Return why a team may not spend: the longest window that is used up."""
    if held.is_empty:
        return WALLET
    used_up = [
        budget["window"]
        for budget in budgets
        if budget["hard_stop"] and budget["spent_micro"] >= budget["limit_micro"]
    ]
    return used_up[-1] if used_up else NONE


def _newest(book: PriceBook, step: int, now_ms: int) -> NewestPrice:
    known: dict[tuple[str, str], int | None] = {}

    def price_micro(market: str, pool: str) -> int | None:
        if (market, pool) not in known:
            known[market, pool] = book.price(market, pool, now_ms, step)
        return known[market, pool]

    return price_micro


def _by_step(lines: Mapping[str, Sequence[Line]]) -> Mapping[int, list[tuple[str, Line]]]:
    found: dict[int, list[tuple[str, Line]]] = defaultdict(list)
    for team, held in lines.items():
        for line in held:
            if line.kind == RATED and line.numerator:
                found[line.step].append((team, line))
    return found


def _begun_and_ended(unrated: Mapping[str, Sequence[Unrated]]) -> tuple[Parts, Parts]:
    began: dict[int, list[tuple[str, Unrated]]] = defaultdict(list)
    ended: dict[int, list[tuple[str, Unrated]]] = defaultdict(list)
    for team, parts in unrated.items():
        for part in parts:
            began[part.since].append((team, part))
            ended[part.until].append((team, part))
    return began, ended


def _new_windows(times_ms: Sequence[int]) -> set[int]:
    """Return the first step in each five minutes: windows of the calendar begin there."""
    return {
        step
        for step in range(1, len(times_ms))
        if times_ms[step - 1] // SETTLEMENT_MS < times_ms[step] // SETTLEMENT_MS
    }
