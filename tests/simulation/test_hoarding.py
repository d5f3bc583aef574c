"""A manager cannot make money: what a pool spends is what it was given, whatever its incomes.

The attack (appendix B of the Quota Marketplace paper): let a team hoard, then cut the incomes of
the pool, so that each of its local credits is worth more. Here credits are minted in global µcr at
the rate in force, so a hoard keeps its worth and no more.
"""

import json
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.billing.tests.billing_bench import Bench, pool, price, usage
from services.billing.tests.ledger_audit import Document, faults

WEIGHT = 10_000_019
PRICE_MICRO = 1_000_000
HOURS = 720
STEP_HOURS = 2
"""The bidder lets a wallet be spent over two hours, so no step spends more than there is."""
TEAMS = ("t1", "t2", "t3")
LEVERAGE = 2


class Manager(Protocol):
    """Sets the incomes of a pool for each step, and says who spends in it."""

    def incomes(self, step: int) -> dict[str, int]: ...

    def spends(self, step: int, team: str) -> bool: ...


@dataclass
class Whim:
    """Does anything, anew in every step or staying with it for a while."""

    draw: random.Random
    now: dict[str, int] = field(default_factory=dict)

    def incomes(self, step: int) -> dict[str, int]:
        del step
        if not self.now or self.draw.random() < 0.3:
            sizes = (0, 0, 1, 7, 10**6, 10**12)
            self.now = {team: self.draw.choice(sizes) for team in TEAMS}
        return self.now

    def spends(self, step: int, team: str) -> bool:
        del step, team
        return self.draw.random() < 0.5


class HoardThenCut:
    """Gives one team a fortune every hour for a week, then next to nothing."""

    def incomes(self, step: int) -> dict[str, int]:
        rich = step * STEP_HOURS < 168
        return {"t1": 10**12 if rich else 1, "t2": 10**6 if rich else 0, "t3": 0}

    def spends(self, step: int, team: str) -> bool:
        return team == "t1" and step * STEP_HOURS >= 168


@dataclass
class Month:
    """What a pool had been given and had spent, and what its wallets held, after each step."""

    minted: list[int] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    wallets: list[int] = field(default_factory=list)


def live(manager: Manager, hours: int = HOURS) -> tuple[Bench, Month]:
    """Let a pool live a month; in every step its spenders use all that the bidder lets them."""
    bench, month = Bench(), Month()
    incomes = manager.incomes(0)
    bench.step(0, price(0, PRICE_MICRO), pool(incomes, weight=WEIGHT))
    numbers = dict.fromkeys(TEAMS, 0)
    wallets = dict.fromkeys(TEAMS, 0)
    for step in range(hours // STEP_HOURS):
        begin = step * STEP_HOURS * 60
        end = begin + STEP_HOURS * 60
        used = []
        for team in TEAMS:
            macc = cap(wallets[team], incomes, team) * 1000 // PRICE_MICRO
            if macc and manager.spends(step, team):
                number = numbers[team]
                numbers[team] += 1
                minutes = STEP_HOURS * 60
                lease = f"l{team}"
                used.append(
                    usage(begin, seq=number, team=team, lease=lease, macc=macc, minutes=minutes)
                )
        incomes = manager.incomes(step + 1)
        bench.step(end - 1, pool(incomes, weight=WEIGHT, version=step + 2, minute=end))
        bench.step(end + 1, *used)
        balances = last_balances(bench)
        wallets = {balance["team"]: balance["wallet_micro"] for balance in balances}
        month.minted.append(sum(b["earned_micro"] - b["expired_micro"] for b in balances))
        month.spent.append(sum(b["spent_micro"] for b in balances))
        month.wallets.append(sum(wallets.values()))
        assert min(wallets.values()) >= 0
    return bench, month


def last_balances(bench: Bench) -> list[Document]:
    """Return the last balance of every team, without reading the whole month again."""
    found: dict[str, Document] = {}
    for partition in bench.log.partitions("balances"):
        for entry in reversed(bench.log.entries["balances", partition][-2 * len(TEAMS) :]):
            if entry.barrier is None:
                found.setdefault(entry.key, json.loads(entry.payload or b""))
    assert found.keys() == set(TEAMS)
    return [*found.values()]


def cap(wallet_micro: int, incomes: dict[str, int], team: str) -> int:
    """What a team may bid per hour (design §4): two incomes, or one and half the wallet."""
    income = WEIGHT * incomes[team] // (sum(incomes.values()) or 1)
    return max(0, min(LEVERAGE * income, income + wallet_micro * 60 // 120))


def gains(month: Month) -> list[int]:
    """Return by how much the spending since any day exceeds what was given since, and the opening.

    Positive: the pool spent what it never had.
    """
    found = []
    steps_of_a_day = 24 // STEP_HOURS
    for start in range(0, len(month.spent), steps_of_a_day):
        for end in range(start + steps_of_a_day, len(month.spent), steps_of_a_day):
            spent = month.spent[end] - month.spent[start]
            given_micro = month.minted[end] - month.minted[start] + month.wallets[start]
            found.append(spent - given_micro)
    return found


@settings(deadline=None, max_examples=2, phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 2**32 - 1))
def test_spending_over_a_month_is_at_most_what_was_minted_and_the_opening_balances(
    seed: int,
) -> None:
    print(f"seed {seed}")
    bench, month = live(Whim(random.Random(seed)))

    assert max(gains(month)) <= 0
    assert month.minted[-1] <= WEIGHT * HOURS + len(TEAMS)
    assert month.spent[-1] > WEIGHT
    assert faults(bench.log) == []


def test_hoarding_before_a_cut_of_incomes_gains_nothing() -> None:
    _, month = live(HoardThenCut(), hours=336)

    week = 168 // STEP_HOURS
    assert month.spent[week - 2] == 0
    assert month.wallets[week - 1] <= 168 * WEIGHT + len(TEAMS)
    assert max(gains(month)) <= 0
    assert month.spent[-1] <= 336 * WEIGHT


def test_money_that_is_worth_more_after_a_cut_is_noticed() -> None:
    """The canary: the same manager with wallets in local credits, valued at the rate in force."""
    manager, month = HoardThenCut(), Month()
    local, minted, spent = Fraction(0), Fraction(0), Fraction(0)
    for step in range(168):
        incomes = manager.incomes(step)
        rate = Fraction(WEIGHT, sum(incomes.values()))
        local += incomes["t1"] * STEP_HOURS
        minted += WEIGHT * STEP_HOURS
        if manager.spends(step, "t1"):
            used = local / 2
            local -= used
            spent += used * rate
        month.minted.append(int(minted))
        month.spent.append(int(spent))
        # An honest count of what it holds: what was minted for it.
        month.wallets.append(max(0, int(minted - spent)))

    with pytest.raises(AssertionError):
        assert max(gains(month)) <= 0
