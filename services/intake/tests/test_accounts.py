from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_intake.accounts import AccountsTable
from walras_intake.core import next_boundary_ms
from walras_runtime.errors import InvariantBrokenError

TEAMS = ("ann", "bob", "cat")


def changed(pool: str, version: int, effective_ms: int, teams: Sequence[str]) -> AccountsChanged:
    accounts = tuple(TeamAccount(team=t, income_local_per_hour=1) for t in teams)
    document = PoolDocument(pool=pool, weight_micro_per_hour=1, teams=accounts)
    return AccountsChanged(version=version, effective_ms=effective_ms, document=document)


_teams = st.lists(st.sampled_from(TEAMS), unique=True)
_history = st.lists(st.tuples(st.integers(0, 3), _teams), max_size=4).map(
    lambda items: sorted(items, key=lambda item: item[0])
)


@settings(deadline=None)
@given(
    histories=st.fixed_dictionaries(dict.fromkeys(("red", "blue", "green"), _history)),
    order=st.permutations(range(12)),
    until=st.integers(0, 4),
)
def test_the_table_depends_on_the_documents_only_not_on_their_interleaving(
    histories: dict[str, list[tuple[int, list[str]]]], order: list[int], until: int
) -> None:
    per_pool = {
        pool: [changed(pool, n, at, teams) for n, (at, teams) in enumerate(history, 1)]
        for pool, history in histories.items()
    }
    plain, mixed = AccountsTable(), AccountsTable()
    for changes in per_pool.values():
        for change in changes:
            plain.put(change)
    waiting = {pool: list(changes) for pool, changes in per_pool.items()}
    for number in order:
        changes = waiting[sorted(waiting)[number % 3]]
        if changes:
            mixed.put(changes.pop(0))
            mixed.put(changes[0]) if changes and number % 2 else None
    for changes in per_pool.values():
        for change in changes:
            mixed.put(change)
    for now in range(until + 1):
        mixed.advance(now)
    plain.advance(until)
    assert [mixed.pool_of(t) for t in TEAMS] == [plain.pool_of(t) for t in TEAMS]
    assert [mixed.latest(f"pool/{p}") for p in per_pool] == [
        plain.latest(f"pool/{p}") for p in per_pool
    ]


def test_a_missing_version_is_a_broken_invariant() -> None:
    table = AccountsTable()
    table.put(changed("red", 1, 0, ()))
    with pytest.raises(InvariantBrokenError):
        table.put(changed("red", 3, 0, ()))


def test_two_documents_of_one_version_are_a_broken_invariant() -> None:
    table = AccountsTable()
    table.put(changed("red", 1, 0, ("ann",)))
    table.put(changed("red", 1, 0, ("ann",)))
    with pytest.raises(InvariantBrokenError):
        table.put(changed("red", 1, 0, ("bob",)))


@given(market_time_ms=st.integers(0, 4 * 10**12))
def test_the_next_boundary_is_the_first_multiple_of_five_minutes_after_a_time(
    market_time_ms: int,
) -> None:
    boundary_ms = next_boundary_ms(market_time_ms)
    assert boundary_ms % 300_000 == 0
    assert market_time_ms < boundary_ms <= market_time_ms + 300_000
