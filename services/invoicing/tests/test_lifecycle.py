"""Every pair of state and event: what it does, as a grid that a change must change."""

from walras_invoicing.lifecycle import (
    ENDED,
    HAPPENINGS,
    REASONS,
    TABLE,
    Happening,
    Refusal,
    Status,
)

GOLDEN = """
         due      due_for_approval hold     release  approve     void
draft    issued   waiting          held     draft    !not_due    !not_issued
held     held     held             held     draft    !held       !not_issued
waiting  issued   waiting          held     waiting  issued      !not_issued
issued   issued   issued           !issued  issued   issued      voided
voided   voided   voided           !voided  !voided  !voided     voided
"""


def grid(text: str) -> dict[tuple[str, str], str]:
    header, *rows = [line.split() for line in text.strip().splitlines()]
    return {
        (row[0], event): outcome
        for row in rows
        for event, outcome in zip(header, row[1:], strict=True)
    }


def as_words(outcome: Status | Refusal) -> str:
    return outcome.value if isinstance(outcome, Status) else f"!{outcome.value}"


def test_every_pair_of_state_and_event_does_what_the_grid_says() -> None:
    assert {(s.value, h.value): as_words(o) for (s, h), o in TABLE.items()} == grid(GOLDEN)
    assert len(TABLE) == len(Status) * len(Happening)


def test_nothing_leads_back_from_an_issued_or_voided_invoice() -> None:
    order = [Status.DRAFT, Status.ISSUED, Status.VOIDED]
    for (before, _), after in TABLE.items():
        if before in ENDED and isinstance(after, Status):
            assert order.index(after) >= order.index(before)


def test_what_happened_once_changes_nothing_when_it_happens_again() -> None:
    for (before, happening), after in TABLE.items():
        if isinstance(after, Status):
            assert TABLE[after, happening] is after, (before, happening)


def test_every_action_and_every_refusal_has_its_words() -> None:
    assert {happening.value for happening in HAPPENINGS.values()} == {
        action.value for action in HAPPENINGS
    }
    assert REASONS.keys() == {*Refusal}


def test_the_grid_sees_a_cell_that_differs() -> None:
    wrong = GOLDEN.replace("!not_due", "issued", 1)
    assert grid(wrong) != grid(GOLDEN)
