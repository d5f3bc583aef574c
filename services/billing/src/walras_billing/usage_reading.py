"""Usage of a source whose terms are known already, read without building a model.

Nearly all usage is: of a running part only the number and the interval change. What is read here is
what the model would have read (a test compares them); whatever differs in anything else, or is not
plainly valid, is left to the model, which says what is wrong with it.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from walras_billing.sources import Source
from walras_billing.time_split import split_of
from walras_billing.usage_faults import DAY_MS, WEIGHT_MAX
from walras_billing.usage_line import SaidTerms, UsageLine
from walras_contracts.quantities import MARKET_TIME_MS_MAX, NUMBER_MAX
from walras_contracts.work import UsageMetered
from walras_runtime.records import Record

_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
_TimeMs = Annotated[int, msgspec.Meta(ge=0, le=MARKET_TIME_MS_MAX)]
_FigureMs = Annotated[int, msgspec.Meta(ge=0, le=DAY_MS)]
"""A larger one, which contradicts any interval, is left to the model, as is what is no number."""


class _Usage(SaidTerms, forbid_unknown_fields=True, gc=False):
    """A usage record; what belongs to its terms needs no ranges, since known terms are in them."""

    seq: _Number
    start_ms: _TimeMs
    end_ms: _TimeMs
    running_ms: _FigureMs | None = None
    busy_ms: _FigureMs | None = None


_DECODER: Final = msgspec.json.Decoder(_Usage)
_TYPE: Final = UsageMetered.TYPE


class Followers:
    """Reads the use of sources that go on where they were.

    Parameters
    ----------
    sources
        What is remembered, by source.
    within_ms
        Use must begin no earlier than the first of them and end no later than the second.
    grace_ms, max_age_ms
        As for :func:`walras_billing.usage_line.line_of`.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        within_ms: tuple[int, int],
        grace_ms: int,
        max_age_ms: int | None,
    ) -> None:
        self._sources = sources
        self._from_ms, self._until_ms = within_ms
        self._grace_ms = grace_ms
        self._max_age_ms = max_age_ms

    def read(self, record: Record) -> UsageLine | None:
        """Return the line of a record, if nothing is wrong with it; None: look closer.

        It is on exactly the terms of the last line of its source and starts where all lines have
        ended; so its team, its pool and its market, which were known then, are known now.
        """
        # What the key names is where to look; the body says what it is.
        source = self._sources.get(record.key.rpartition("/")[0])
        if source is None or not source.lines or record.type != _TYPE or record.value is None:
            return None
        try:
            said = _DECODER.decode(record.value)
        except msgspec.MsgspecError:
            return None
        terms = source.lines[-1].terms
        start_ms, end_ms = said.start_ms, said.end_ms
        if (
            source.end_ms <= start_ms < end_ms <= start_ms + DAY_MS
            and self._from_ms <= start_ms
            and end_ms <= self._until_ms
            and said.is_on(terms)
            and terms.tariff_ppm * terms.quantity_macc * (end_ms - start_ms) <= WEIGHT_MAX
        ):
            until_ms = end_ms + self._grace_ms
            line = UsageLine(terms, said.seq, start_ms, end_ms, until_ms, self._max_age_ms)
            if said.running_ms is not None or said.busy_ms is not None:
                line.split = split_of(end_ms - start_ms, said.running_ms, said.busy_ms)
            return line
        return None
