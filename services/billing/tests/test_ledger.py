"""The ledger: every entry balances, and wallets are its fold, whatever happens to the accounts."""

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, pool, price, usage
from services.billing.tests.ledger_audit import faults
from walras_billing.ledger import SIDES, EntryWriter
from walras_billing.running_totals import Amount, RunningTotal
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    PlatformDocument,
    PoolDocument,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.identifiers import bordered
from walras_contracts.ledger import EXACT_DENOMINATOR_MAX, EntryKind, LedgerEntryPosted, bounded
from walras_contracts.money import BalancePublished, BudgetPublished
from walras_contracts.registry import decode_inner
from walras_contracts.work import WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, emit

PROPERTY = settings(deadline=None, max_examples=15, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
TEAMS = ("t1", "t2", "t3", "t4")
POOLS = ("p", "q")


def pool_of(
    name: str, teams: tuple[TeamAccount, ...], weight: int, version: int, minute: int
) -> Output:
    document = PoolDocument(pool=name, weight_micro_per_hour=weight, teams=teams)
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def platform(hours: int, version: int, minute: int) -> Output:
    document = PlatformDocument(max_balance_hours=hours)
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


class Life:
    """An hour or more of use while teams come, go and move; weights, caps and budgets change."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.home = {team: self.draw.choice(POOLS) for team in TEAMS}
        self.pays = dict(self.home)
        """The pool that a team is charged in: its home, or the last one."""
        self.version = 0
        self.seq: dict[str, int] = defaultdict(int)
        self.used: list[Output] = []

    def documents(self, minute: int) -> list[Output]:
        self.version += 1
        accounts = [self.account(team) for team in TEAMS]
        found = [
            pool_of(
                name,
                tuple(each for each in accounts if self.home[each.team] == name),
                self.draw.choice((0, 1, 1_000_003, 77_777_777)),
                self.version,
                minute,
            )
            for name in POOLS
        ]
        if self.draw.random() < 0.5:
            found.append(platform(self.draw.choice((1, 168)), self.version, minute))
        return found

    def account(self, team: str) -> TeamAccount:
        budgets = tuple(
            TeamBudget(
                window=window,
                limit_micro=self.draw.choice((1, 300, 10**6)),
                hard_stop=self.draw.random() < 0.7,
            )
            for window in BillingPeriod
            if self.draw.random() < 0.2
        )
        income = self.draw.choice((0, 1, 3, 7, 10**9 + 7))
        return TeamAccount(team=team, income_local_per_hour=income, budgets=budgets)

    def change(self, minute: int) -> list[Output]:
        """Write documents for the next boundary; a team may move, or be in no pool."""
        team = self.draw.choice(TEAMS)
        self.home[team] = self.draw.choice((*POOLS, "none"))
        if self.home[team] in POOLS:
            self.pays[team] = self.home[team]
        return self.documents((minute // 5 + 1) * 5)

    def use(self, minute: int) -> list[Output]:
        found = []
        for team in TEAMS:
            if self.draw.random() < 0.5:
                continue
            lease = f"l{team}"
            output = usage(
                minute - 1,
                seq=self.seq[lease],
                team=team,
                lease=lease,
                macc=self.draw.choice((1, self.draw.randrange(1, 10**6))),
                work_class=self.draw.choice((WorkClass.MARKET, WorkClass.OPPORTUNISTIC)),
            )
            self.seq[lease] += 1
            body = json.loads(output.payload or b"") | {"pool": self.pays[team]}
            found.append(replace(output, payload=json.dumps(body).encode()))
        kept = [output for output in found if self.draw.random() < 0.8]
        late, self.used = self.used, [output for output in found if output not in kept]
        return [*kept, *late]

    def play(self, bench: Bench, minutes: int) -> Bench:
        bench.step(0, *self.documents(0), both(0, self.draw.choice((7, 77_777))))
        minute = 0
        while minute < minutes:
            minute += self.draw.choice((1, 1, 1, 2, 12))
            given = self.use(minute)
            if self.draw.random() < 0.3:
                given += self.change(minute)
            if self.draw.random() < 0.5:
                back = self.draw.randrange(0, min(minute, 20) + 1)
                given.append(both(minute - back, self.draw.choice((None, 0, 7, 99_991))))
            bench.step(minute, *given)
        return bench


def both(minute: int, micro: int | None) -> Output:
    """Return a price record that names both pools."""
    output = price(minute, micro)
    document = json.loads(output.payload or b"")
    (of_p,) = document["pools"]
    document["pools"] = [of_p, of_p | {"pool": "q"}]
    return replace(output, payload=json.dumps(document).encode())


def entries(bench: Bench) -> list[LedgerEntryPosted]:
    return bench.events("ledger", LedgerEntryPosted)


@PROPERTY
@given(seed=SEED)
def test_every_entry_and_balance_is_what_an_independent_audit_says(seed: int) -> None:
    bench = Life(seed).play(Bench(), 80)

    assert faults(bench.log) == []


@PROPERTY
@given(seed=SEED)
def test_debits_equal_credits_after_every_entry_and_wallets_are_the_fold(seed: int) -> None:
    bench = Life(seed).play(Bench(), 60)
    accounts: dict[str, int] = defaultdict(int)
    for entry in entries(bench):
        for line in entry.lines:
            accounts[line.account] += line.amount_micro
        assert sum(accounts.values()) == 0

    assert len({entry.entry_id for entry in entries(bench)}) == len(entries(bench))
    for team, balance in bench.balances().items():
        assert accounts[f"wallet/{team}"] == balance.wallet_micro
        assert balance.wallet_micro == (
            balance.earned_micro
            - balance.spent_micro
            + balance.credited_micro
            - balance.expired_micro
        )
    # Each side of a team and pool is off by less than a µcr and a half.
    for name in POOLS:
        assert abs(accounts[f"rounding/{name}"]) <= 1.5 * 3 * len(TEAMS)


@PROPERTY
@given(seed=SEED)
def test_a_replay_from_the_start_gives_the_same_keys_and_bytes(seed: int) -> None:
    once = Life(seed).play(Bench(), 40)
    again = Life(seed).play(Bench(crash=True), 40)

    assert again.log.entries == once.log.entries


class Checked(Bench):
    """A bench whose processes hold nothing of a wallet that a successor would not read."""

    def step(self, minute: int, *given: Output) -> None:
        super().step(minute, *given)
        kept = state_digest_input(self.log, "billing")
        for partition, stage in enumerate(self.stages()):
            for team, wallet in stage.state.wallets.items():
                assert json.loads(kept[f"{partition}/wallet/{team}"]) == json.loads(wallet.dump())


@PROPERTY
@given(seed=SEED)
def test_after_every_step_the_state_topic_has_each_wallet_as_it_is_in_memory(seed: int) -> None:
    Life(seed).play(Checked(), 60)


@PROPERTY
@given(seed=SEED)
def test_records_made_without_a_model_are_the_bytes_of_the_model(seed: int) -> None:
    bench = Life(seed).play(Bench(), 30)
    seen = 0
    for event_class in (LedgerEntryPosted, BalancePublished, BudgetPublished):
        for partition in bench.log.partitions(event_class.TOPIC):
            for entry in bench.log.read(event_class.TOPIC, partition, 0):
                if entry.barrier is not None:
                    continue
                assert entry.payload is not None
                event = decode_inner(entry.type, entry.payload)
                assert event.payload() == entry.payload
                assert event.record_key() == entry.key
                seen += 1
    assert seen > 10


def lines_of(kind: EntryKind, by: tuple[int, int], exact: Amount) -> list[tuple[str, int]]:
    """Return account and amount of each line of the entry of a total that changed."""
    writer = EntryWriter(0, 0, [])
    words = writer.words_of("p")[[*SIDES].index(kind)]
    writer.entry(words, ("t", bordered("t")), by, exact)
    return [
        (line.account, line.amount_micro)
        for output in writer.written
        for line in LedgerEntryPosted.model_validate_json(output.payload or b"").lines
    ]


@PROPERTY
@given(
    steps=st.lists(st.fractions(-3, 10, max_denominator=97), min_size=1, max_size=30),
    kind=st.sampled_from(EntryKind),
)
def test_rounding_does_not_depend_on_how_amounts_are_grouped(
    steps: list[Fraction], kind: EntryKind
) -> None:
    def posted(groups: list[Fraction]) -> dict[str, int]:
        total, accounts = RunningTotal(), defaultdict[str, int](int)
        for amount in groups:
            by = total.add((amount.numerator, amount.denominator))
            exact = total.numerator, total.denominator
            for account, micro in lines_of(kind, by, exact):
                accounts[account] += micro
        assert Fraction(total.numerator, total.denominator) == sum(groups)
        assert total.rounded == round(sum(groups))
        assert total.truncated == int(sum(groups))
        return {account: micro for account, micro in accounts.items() if micro}

    middle = len(steps) // 2
    one_by_one = posted(steps)
    assert one_by_one == posted([sum(steps, Fraction(0))])
    assert one_by_one == posted(
        [sum(steps[:middle], Fraction(0)), sum(steps[middle:], Fraction(0))]
    )


def test_exact_totals_round_towards_zero_on_the_other_side_of_the_wallet() -> None:
    totals = [RunningTotal(numerator, 2) for numerator in (-3, -1, 0, 1, 3)]
    assert [total.truncated for total in totals] == [-1, 0, 0, 0, 1]
    assert [total.rounded for total in totals] == [-2, 0, 0, 0, 2]
    total = RunningTotal()
    assert lines_of(EntryKind.USAGE, total.move_to(1, 2), (1, 2)) == []
    lines = lines_of(EntryKind.USAGE, total.move_to(3, 2), (3, 2))
    assert lines == [("revenue/p", 1), ("rounding/p", 1), ("wallet/t", -2)]


def test_an_income_whose_sums_never_repeat_stays_a_number_of_bounded_length() -> None:
    """A manager who changes an income every boundary makes C, and the denominator, ever new."""
    bench = Bench()
    bench.step(0, pool({"t1": 1, "t2": 1}))
    exact, share = Fraction(0), Fraction(1, 2)
    for turn in range(40):
        exact += 100_000 * share
        local = 10**11 + 3 + 2 * turn
        incomes = {"t1": local // 3, "t2": local - local // 3}
        share = Fraction(incomes["t1"], local)
        boundary = 5 * (turn + 1)
        bench.step(boundary - 2, pool(incomes, version=turn + 2, minute=boundary))
    bench.step(5 * 40 + 1)
    assert exact.denominator > EXACT_DENOMINATOR_MAX**4

    last = [e for e in entries(bench) if e.team == "t1"][-1]
    numerator, denominator = map(int, last.exact_total.split("/"))
    assert denominator <= EXACT_DENOMINATOR_MAX
    assert abs(Fraction(numerator, denominator) - exact) < Fraction(1, 10**15)
    assert faults(bench.log) == []
    assert bounded(Fraction(1, 3)) == Fraction(1, 3)


def tampered(bench: Bench, topic: str, change: Callable[[Any], None]) -> Bench:
    """Change the last record of a topic."""
    for held in (bench.log.entries.get((topic, p), []) for p in bench.log.partitions(topic)):
        for index in reversed(range(len(held))):
            payload = held[index].payload
            if held[index].barrier is None and payload is not None:
                document = json.loads(payload)
                change(document)
                held[index] = replace(held[index], payload=json.dumps(document).encode())
                return bench
    raise AssertionError(f"nothing to change in {topic}")


def more(document: Any) -> None:
    document["lines"][0]["amount_micro"] += 1


def earlier(document: Any) -> None:
    document["boundary_ms"] -= 300_000


def richer(document: Any) -> None:
    document["wallet_micro"] += 1


def dearer(document: Any) -> None:
    document["amount_numerator"] = str(int(document["amount_numerator"]) + 36 * 10**14)


@pytest.mark.parametrize(
    ("topic", "change", "what"),
    [
        ("ledger", more, "do not sum to 0"),
        ("ledger", earlier, "had to be"),
        ("balances", richer, "not the fold"),
        ("charges", dearer, "usage of"),
    ],
)
def test_a_ledger_that_is_wrong_by_one_is_noticed(
    topic: str, change: Callable[[Any], None], what: str
) -> None:
    """The canary of the audit."""
    bench = Life(3).play(Bench(), 60)
    assert faults(bench.log) == []

    assert any(what in fault for fault in faults(tampered(bench, topic, change).log))
