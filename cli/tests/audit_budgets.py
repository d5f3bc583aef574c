"""What teams may spend, drawn at random: some of it is reached soon, some never."""

import random
from collections.abc import Iterable

from walras_contracts.accounts import BillingPeriod, TeamBudget

Budgets = dict[str, tuple[TeamBudget, ...]]
"""By team."""
LIMITS_MICRO = (1, 10**7, 5 * 10**7, 2 * 10**8, 10**9)
ALERTS_PPM = ((), (500_000, 800_000, 1_000_000), (2_000_000,))


def drawn_budgets(draw: random.Random, teams: Iterable[str]) -> Budgets:
    return {team: drawn_budget(draw) for team in teams}


def drawn_budget(draw: random.Random) -> tuple[TeamBudget, ...]:
    return tuple(
        TeamBudget(
            window=window,
            limit_micro=draw.choice(LIMITS_MICRO),
            hard_stop=draw.random() < 0.7,
            alert_ppm=draw.choice(ALERTS_PPM),
        )
        for window in draw.sample([*BillingPeriod], draw.randrange(4))
    )
