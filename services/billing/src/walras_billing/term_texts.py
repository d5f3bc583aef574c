"""What the records of equal terms have in common, as text: made once for all of them.

Ids hold no character that JSON escapes, so that the texts are put together as they are. The bytes
are those that the model of a charge and the encoder of the own state write (tests compare them).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from walras_contracts.work import WorkClass

if TYPE_CHECKING:
    from walras_billing.usage_line import Terms

NULL: Final = "null"
SHARED: Final = 4096
"""So many texts are remembered to be shared."""
_BOOLEAN: Final = {False: "false", True: "true"}


class TermTexts(NamedTuple):
    """The constant parts of a charge record and of a line in the own state."""

    charge_head: str
    """Up to the sequence number."""
    charge_quantity: str
    """From there to the start."""
    charge_limit: str
    """From the end to the position."""
    charge_class: str
    """From the reason to the price."""
    kept_head: str
    """Of a line in the own state, up to the sequence number."""


def texts_of(terms: "Terms") -> TermTexts:
    """Make the texts of some terms."""
    limit, billable = _or_null(terms.limit_micro), _BOOLEAN[terms.billable]
    return TermTexts(
        f'{{"team":"{terms.team}","pool":"{terms.pool}","job":"{terms.job}",'
        f'"market":"{terms.market}","lease":"{terms.lease}","node":"{terms.node}",'
        f'"attempt":{terms.attempt},"seq":',
        _quantity(terms.quantity_macc),
        _limit(terms.limit_micro, terms.tariff_ppm),
        _work_class(terms.work_class, terms.billable),
        f'["{terms.lease}","{terms.node}",{terms.attempt},"{terms.team}","{terms.pool}",'
        f'"{terms.job}","{terms.market}",{terms.quantity_macc},"{terms.work_class.value}",'
        f"{billable},{limit},{terms.tariff_ppm},",
    )


# What many terms have in common is one text in memory.


@lru_cache(SHARED)
def _quantity(quantity_macc: int) -> str:
    return f',"quantity_macc":{quantity_macc},"start_ms":'


@lru_cache(SHARED)
def _limit(limit_micro: int | None, tariff_ppm: int) -> str:
    return f',"limit_micro":{_or_null(limit_micro)},"tariff_ppm":{tariff_ppm},"prices_until_ms":'


@lru_cache(SHARED)
def _work_class(work_class: WorkClass, billable: bool) -> str:
    return f'","work_class":"{work_class.value}","billable":{_BOOLEAN[billable]},"price_micro":'


def _or_null(value: int | None) -> str:
    return NULL if value is None else str(value)
