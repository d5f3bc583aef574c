"""O20: limits of a parent and its children are judged alike on create and on update.

The hierarchy of Walras is a pool, whose weight is what its teams can spend together, and its teams,
whose incomes are their shares of it. Shares need no sum: whatever they are, they divide the whole
of the pool, exactly (integers; no sum of binary fractions that is a little more than its parts).
What is unlimited is said by leaving a limit out; no number stands for it.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from walras_contracts.accounts import AccountsRequested
from walras_contracts.identifiers import partition_of

Make = Callable[..., Any]
THOUSANDTHS = 1_000
UNLIMITED = -1


def pool_document(weight: int, incomes: dict[str, int], **team_more: Any) -> dict[str, Any]:
    teams = [
        {"team": team, "income_local_per_hour": income, **team_more}
        for team, income in incomes.items()
    ]
    return {
        "document": {
            "kind": "pool",
            "pool": "red",
            "weight_micro_per_hour": weight,
            "teams": teams,
        }
    }


class Office:
    """Asks intake for documents of one pool and says what becomes of them."""

    def __init__(self, intakes: Any) -> None:
        self.intakes = intakes
        self.asked = 0

    def ask(self, document: dict[str, Any]) -> tuple[str, str]:
        """Return code and path of the refusal, both empty where it is taken."""
        before = len(self.intakes.events("demand.rejected"))
        self.asked += 1
        self.intakes.tell_bytes(
            json.dumps(document).encode(),
            topic="accounts.requests",
            partition=partition_of("pool/red", 4),
            type_=AccountsRequested.TYPE,
            event_id=f"ask/{self.asked}",
        )
        self.intakes.tick()
        refused = self.intakes.events("demand.rejected")[before:]
        return (refused[0].code, refused[0].path) if refused else ("", "")

    def version(self) -> int:
        found = [e.version for e in self.intakes.events("accounts")]
        return max(found, default=0)


@pytest.fixture(params=["create", "update"])
def office(make_intakes: Make, request: pytest.FixtureRequest) -> Office:
    """An intake without the pool, or with an older document of it."""
    office = Office(make_intakes())
    if request.param == "update":
        assert office.ask(pool_document(7, {"old": 1})) == ("", "")
    return office


def asks(office: Office, document: dict[str, Any]) -> tuple[str, str]:
    before = office.version()
    refusal = office.ask(document)
    assert office.version() - before == (refusal == ("", "")), "taken, or nothing has changed"
    return refusal


def test_children_of_a_tenth_and_two_tenths_fit_a_parent_of_three_tenths(office: Office) -> None:
    parent, children = 3 * THOUSANDTHS // 10, {"a": THOUSANDTHS // 10, "b": 2 * THOUSANDTHS // 10}
    assert sum(children.values()) == parent
    assert asks(office, pool_document(parent, children)) == ("", "")


def test_children_that_ask_for_more_than_the_parent_has_divide_what_it_has(office: Office) -> None:
    """Not refused: equal shares of 300 are 150 each. Billing mints it so, clearing bids no more."""
    assert asks(office, pool_document(300, {"a": 200, "b": 200})) == ("", "")


BUDGET = "$.document.teams[0].budgets[0].limit_micro"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (pool_document(300, {"a": UNLIMITED}), "$.document.teams[0].income_local_per_hour"),
        (pool_document(UNLIMITED, {"a": 1}), "$.document.weight_micro_per_hour"),
        (pool_document(300, {"a": 1}, leverage_ppm=-1), "$.document.teams[0].leverage_ppm"),
        (
            pool_document(300, {"a": 1}, budgets=[{"window": "day", "limit_micro": -1}]),
            BUDGET,
        ),
        (pool_document(300, {"a": 1}, budgets=[{"window": "day", "limit_micro": 0}]), BUDGET),
        (pool_document(300, {"a": 1}, budgets=[{"window": "day", "limit_micro": None}]), BUDGET),
    ],
)
def test_no_number_means_unlimited_and_the_field_is_named(
    office: Office, document: dict[str, Any], path: str
) -> None:
    code, found = asks(office, document)
    assert code in {"out_of_range", "wrong_type"}
    assert found == path


def test_unlimited_is_said_by_leaving_the_limit_out(office: Office) -> None:
    budget = {"window": "day", "limit_micro": 1}
    assert asks(office, pool_document(300, {"a": 1}, budgets=[budget])) == ("", "")
    assert asks(office, pool_document(300, {"a": 1})) == ("", "")
    (latest,) = [e for e in office.intakes.events("accounts") if e.version == office.version()]
    assert latest.document.teams[0].budgets == ()


def test_two_limits_of_one_window_are_refused_and_of_two_windows_are_not(office: Office) -> None:
    twice = [{"window": "day", "limit_micro": n} for n in (1, 2)]
    code, path = asks(office, pool_document(300, {"a": 1}, budgets=twice))
    assert (code, path.startswith("$.document.teams[0].budgets")) == ("invalid_value", True)
    each = [{"window": window, "limit_micro": 5} for window in ("hour", "day", "month")]
    assert asks(office, pool_document(300, {"a": 1}, budgets=each)) == ("", "")
