"""How long devices were held, job by job, and what became of that time."""

from typing import Annotated, ClassVar, Final, Self

from pydantic import StringConstraints, model_validator

from walras_contracts.event import Event
from walras_contracts.identifiers import Id
from walras_contracts.quantities import MarketTimeMs

SIGNED_MACC_MS_PATTERN: Final = r"^(0|-?[1-9][0-9]{0,39})$"

SignedMaccMs = Annotated[str, StringConstraints(strict=True, pattern=SIGNED_MACC_MS_PATTERN)]
"""Decimal digits of a whole number of milli-accelerator-milliseconds, below 0 for what is less.

Text, because a large market holds more in five minutes than 64 bits can say.
"""


class UsageSettled(Event):
    """By how much the time that a job held devices has grown, and how it was used.

    Held is what was charged, free or waits for its price; what is in quarantine is not. The four
    parts sum to it. The sum over all records of a key is what is known now: use that came late, and
    time that was taken away, are further records, below 0 where there is less than before.
    """

    TYPE: ClassVar[str] = "walras.usage.settled.v1"
    TOPIC: ClassVar[str] = "usage.settled"

    team: Id
    pool: Id
    job: Id
    market: Id
    boundary_ms: MarketTimeMs
    """End of the five minutes of the use: of a usage record the first boundary at or after its end,
    which is where sources cut at the latest."""
    settled_ms: MarketTimeMs
    """The boundary at whose settlement this was published; later than ``boundary_ms``: a change."""
    held_macc_ms: SignedMaccMs
    occupied_macc_ms: SignedMaccMs
    """The job's processes used the devices."""
    allocated_macc_ms: SignedMaccMs
    """They existed and did not use them."""
    idle_macc_ms: SignedMaccMs
    """There were none."""
    unmeasured_macc_ms: SignedMaccMs
    """Nobody measured which of the three it was, or it is the rest of a record that lost a part."""

    @model_validator(mode="after")
    def _parts_sum_to_held(self) -> Self:
        parts = (
            *(self.occupied_macc_ms, self.allocated_macc_ms),
            *(self.idle_macc_ms, self.unmeasured_macc_ms),
        )
        total = sum(map(int, parts))
        if total != int(self.held_macc_ms):
            raise ValueError(f"the parts sum to {total}, not to held_macc_ms")
        return self

    @model_validator(mode="after")
    def _is_settled_once_it_is_over(self) -> Self:
        if self.settled_ms < self.boundary_ms:
            raise ValueError("settled_ms must not be before boundary_ms")
        return self

    def record_key(self) -> str:
        """Key ``team/job/market/boundary_ms``; of several pools and changes each is a record."""
        return f"{self.team}/{self.job}/{self.market}/{self.boundary_ms}"

    def partition_key(self) -> str:
        """By team."""
        return self.team
