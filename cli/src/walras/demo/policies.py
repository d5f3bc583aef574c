"""Other policies for a replay: the same trace, with other terms in its accounts documents."""

from dataclasses import dataclass, replace
from typing import Final

from walras.trace import Replay
from walras_contracts.accounts import (
    AccountsRequested,
    MarketDocument,
    PlatformDocument,
    Rounding,
)


@dataclass(frozen=True, slots=True)
class Policies:
    """What to change in the scenario's accounts; None leaves a term as the scenario has it.

    Parameters
    ----------
    rounding
        How whole jobs use divisible quota, in every market.
    retention_gap_ppm
        By how much the limit of a running job counts as raised within its minimum run time, in
        parts per million; 0: no retention.
    """

    rounding: Rounding | None = None
    retention_gap_ppm: int | None = None


AS_IN_THE_SCENARIO: Final = Policies()


def with_policies(replay: Replay, policies: Policies) -> Replay:
    """Return the replay with these policies in its accounts, and everything else as it was.

    Raises
    ------
    pydantic.ValidationError
        The retention gap is out of range.
    """
    return replace(
        replay, accounts=tuple(_changed(request, policies) for request in replay.accounts)
    )


def _changed(request: AccountsRequested, policies: Policies) -> AccountsRequested:
    document = request.document
    terms: dict[str, object] = {}
    if isinstance(document, PlatformDocument) and policies.retention_gap_ppm is not None:
        terms["retention_gap_ppm"] = policies.retention_gap_ppm
    elif isinstance(document, MarketDocument) and policies.rounding is not None:
        terms["rounding"] = policies.rounding
    if not terms:
        return request
    # Built anew, so that ranges are checked: a copy with other values would not be.
    changed = type(document).model_validate({**document.model_dump(), **terms})
    return AccountsRequested(document=changed)
