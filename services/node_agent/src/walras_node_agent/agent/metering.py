"""The use of one part, cut into intervals with dense numbers.

Use is measured on the clock that never jumps and told in wall clock time. Where the two drift
apart, nothing is metered twice and no more than what passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walras_contracts.work import LeaseGranted, UsageMetered, WorkClass
from walras_node_agent.usage_pieces import Piece, full_piece_end_ms, pieces, split


@dataclass(frozen=True, slots=True)
class Terms:
    """How the use of a part is told: its class, and until when it is billed.

    ``unbilled_from_ms``: in wall clock time; None: all of it is billed.
    """

    work_class: WorkClass
    unbilled_from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Meter:
    """How far a part is metered: the next number, and the end of the last interval on both clocks.

    Parameters
    ----------
    seq
        Of the next interval.
    wall_ms
        Where it begins in wall clock time, as long as the clocks keep their distance.
    boot_ms
        The same on the clock that never jumps.
    """

    seq: int
    wall_ms: int
    boot_ms: int

    def begin_ms(self, offset_ms: int) -> int:
        """Return where the next interval begins, with this distance between the clocks.

        If the wall clock went forward meanwhile, the time that it left out belongs to nobody; if
        it went back, what lies before the end of the last interval is not metered again.
        """
        return max(self.wall_ms, self.boot_ms + offset_ms)

    def advanced(
        self, until_boot_ms: int, offset_ms: int, terms: Terms, *, final: bool
    ) -> tuple["Meter", Sequence[Piece]]:
        """Meter up to an instant.

        Parameters
        ----------
        until_boot_ms
            The instant, on the clock that never jumps.
        offset_ms
            Distance of the wall clock from it.
        terms
            How use is told; it is cut where billing ends.
        final
            Whether the interval that is not full ends there, too: something changes.

        Returns
        -------
        tuple
            The meter behind the intervals, and they.
        """
        begin_ms = self.begin_ms(offset_ms)
        until_ms = until_boot_ms + offset_ms
        if until_ms <= begin_ms:
            return self, ()
        cut = pieces(begin_ms, until_ms)
        if terms.unbilled_from_ms is not None:
            cut = split(cut, terms.unbilled_from_ms)
        if not final and until_ms < full_piece_end_ms(cut[-1][0]):
            cut = cut[:-1]
        if not cut:
            return self, ()
        end_ms = cut[-1][1]
        return Meter(self.seq + len(cut), end_ms, end_ms - offset_ms), cut

    def dump(self) -> list[Any]:
        """Return the meter as JSON."""
        return [self.seq, self.wall_ms, self.boot_ms]

    @staticmethod
    def parse(values: list[Any]) -> "Meter":
        """Return what was dumped."""
        return Meter(*values)


def usage(
    grant: LeaseGranted, first_seq: int, cut: Sequence[Piece], terms: Terms
) -> list[UsageMetered]:
    """Return the records of intervals. What ran at price 0 is not billed while it leaves."""
    unbilled_ms = terms.unbilled_from_ms
    free = grant.work_class is WorkClass.OPPORTUNISTIC and terms.work_class is WorkClass.OVERHANG
    return [
        UsageMetered(
            lease=grant.lease,
            node=grant.node,
            attempt=grant.attempt,
            seq=seq,
            team=grant.team,
            pool=grant.pool,
            job=grant.job,
            market=grant.market,
            quantity_macc=grant.size_macc,
            start_ms=start_ms,
            end_ms=end_ms,
            work_class=terms.work_class,
            billable=not free and (unbilled_ms is None or start_ms < unbilled_ms),
            limit_micro=grant.limit_micro,
            tariff_ppm=grant.tariff_ppm,
        )
        for seq, (start_ms, end_ms) in enumerate(cut, first_seq)
    ]
