"""Records of a settlement, made without their models: what the models write, for any values."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from walras_billing.accounts import AccountBook
from walras_billing.ledger import SIDES, EntryWriter
from walras_billing.money_payloads import balance_output
from walras_billing.wallets import PoolAccount, Wallet
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.identifiers import bordered, digest_of
from walras_contracts.ledger import EntryKind, LedgerEntryPosted, LedgerLine
from walras_contracts.money import BalancePublished
from walras_contracts.quantities import MARKET_TIME_MS_MAX, MICRO_MAX, SETTLEMENT_MS
from walras_runtime.records import emit

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
BOUNDARIES_MS = st.integers(0, MARKET_TIME_MS_MAX)
MOVES = st.integers(-2, 2) | st.integers(-MICRO_MAX // 4, MICRO_MAX // 4)


@given(
    kind=st.sampled_from(EntryKind),
    names=st.tuples(IDS, IDS),
    boundary_ms=BOUNDARIES_MS,
    by=st.tuples(MOVES, MOVES),
    exact=st.fractions(max_denominator=10**36),
)
def test_an_entry_is_written_as_its_model_writes_it(
    kind: EntryKind,
    names: tuple[str, str],
    boundary_ms: int,
    by: tuple[int, int],
    exact: Fraction,
) -> None:
    team, pool = names
    counter, sign = SIDES[kind]
    amounts = {
        f"{counter}/{pool}": -sign * by[1],
        f"rounding/{pool}": sign * (by[1] - by[0]),
        f"wallet/{team}": sign * by[0],
    }
    lines = tuple(
        LedgerLine(account=account, amount_micro=micro)
        for account, micro in amounts.items()
        if micro
    )
    writer = EntryWriter(boundary_ms, 2, [])
    words = writer.words_of(pool)[[*SIDES].index(kind)]
    writer.entry(words, (team, bordered(team)), by, (exact.numerator, exact.denominator))

    if not lines:
        assert writer.written == []
        return
    event = LedgerEntryPosted(
        entry_id=digest_of("ledger", kind, team, pool, str(boundary_ms)),
        kind=kind,
        team=team,
        pool=pool,
        boundary_ms=boundary_ms,
        exact_total=f"{exact.numerator}/{exact.denominator}",
        lines=lines,
    )
    assert writer.written == [emit(event, partition=2)]


TOTALS = st.integers(0, MICRO_MAX // 8)


@given(
    names=st.tuples(IDS, IDS, IDS),
    boundary_ms=BOUNDARIES_MS,
    totals=st.lists(st.tuples(TOTALS, TOTALS, TOTALS, TOTALS), min_size=1, max_size=2),
)
def test_a_balance_is_written_as_its_model_writes_it(
    names: tuple[str, str, str], boundary_ms: int, totals: list[tuple[int, int, int, int]]
) -> None:
    team, *pools = names
    wallet = Wallet(team, pools[0])
    for pool, (earned, spent, credited, expired) in zip(pools, totals, strict=False):
        account = wallet.accounts[pool] = PoolAccount((earned, 1))
        account.spent_posted.move_to(spent, 1)
        account.credited_posted.move_to(credited, 1)
        account.expired_micro = expired
    kept = totals[-1:] if pools[0] == pools[1] else totals
    earned, spent, credited, expired = (sum(parts) for parts in zip(*kept, strict=True))
    event = BalancePublished(
        team=team,
        pool=pools[0],
        boundary_ms=boundary_ms,
        wallet_micro=earned - spent + credited - expired,
        earned_micro=earned,
        spent_micro=spent,
        credited_micro=credited,
        expired_micro=expired,
    )
    assert balance_output(wallet, wallet.sums(), boundary_ms, 3) == emit(event, partition=3)


def test_incomes_are_the_same_object_until_a_document_changes_them() -> None:
    """Settlements do nothing for teams whose incomes they have seen; so it must not be another."""
    book = AccountBook()

    def put(version: int, effective_ms: int, local: int) -> None:
        teams = (
            TeamAccount(team="t", income_local_per_hour=local),
            TeamAccount(team="u", income_local_per_hour=2),
        )
        document = PoolDocument(pool="p", weight_micro_per_hour=3600, teams=teams)
        change = AccountsChanged(version=version, effective_ms=effective_ms, document=document)
        book.put(change)

    def incomes(boundary: int) -> object:
        at_ms = boundary * SETTLEMENT_MS
        return book.incomes(at_ms - SETTLEMENT_MS, at_ms)["p"]

    put(1, 0, 1)
    first = incomes(1)
    assert first == {"t": (100, 1), "u": (200, 1)}
    assert incomes(2) is first

    put(2, 2 * SETTLEMENT_MS + SETTLEMENT_MS // 2, 4)
    assert incomes(2) is first
    # Half of the interval by the first document, half of it by the second.
    assert incomes(3) == {"t": (150, 1), "u": (150, 1)}
    assert incomes(4) == {"t": (200, 1), "u": (100, 1)}
    assert incomes(5) is incomes(4)
