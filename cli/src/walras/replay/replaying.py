"""Folding stored cycles from the first key frame on, and clearing each market again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from walras.archive.recorded_cycle import ArchiveError, BrokenCycleError, RecordedCycle, gap
from walras.replay.comparing import Difference, differences, has_results
from walras.replay.rebuilding import RebuiltMarket, rebuilt
from walras_clearing import ClearingInputError, clear_arrays, verify_arrays
from walras_clearing.arrays import ClearedArrays, MarketArrays
from walras_contracts.cycle_frames import FoldedMarket, FrameError
from walras_contracts.market import CycleRecorded, FrameKind, MarketState

GOES_ON: frozenset[MarketState] = frozenset({MarketState.SKIPPED, MarketState.HALTED})
"""States of a cycle in which the market's last prices and quotas stay in force."""

DIFFERENCES_KEPT = 10_000
"""A build that clears otherwise differs everywhere: the first ones tell as much as all."""


class Study(Protocol):
    """What looks at every replayed cycle beside the comparison."""

    def take(self, head: CycleRecorded, market: RebuiltMarket, result: ClearedArrays) -> None:
        """Look at a cycle, and at what clearing it again gave."""

    def end(self, market: str, market_time_ms: int | None) -> None:
        """Learn when the last cycle of a market ended; None where that is not known."""


@dataclass
class MarketReplay:
    """How far the replay of one market is, and what it found.

    ``before_key_frame`` counts the cycles that could not be rebuilt for want of a key frame,
    ``not_cleared`` those in which the market was off, halted or skipped, ``cut`` those at the
    beginning of a log of which retention has taken a part.
    """

    fold: FoldedMarket
    replayed: int = 0
    not_cleared: int = 0
    before_key_frame: int = 0
    cut: int = 0
    first_cycle: int | None = None
    last_cycle: int | None = None
    next_cycle: int | None = None
    time_ms: int = 0
    """Market time of the last whole cycle."""
    known: bool = False
    """Whether the fold is the market as it was cleared last."""
    broken: BrokenCycleError | None = None
    """Why there is nothing to go on from, where that was before the cycles to replay."""


@dataclass
class Replay:
    """The replay of all markets of a source.

    Parameters
    ----------
    within
        Cycles to clear again; earlier ones are only folded.
    skip_gaps
        Whether to go on from the next key frame behind what is missing.
    study
        Looks at each replayed cycle; None: nothing does.
    """

    within: range
    skip_gaps: bool = False
    study: Study | None = None
    markets: dict[str, MarketReplay] = field(default_factory=dict)
    found: list[Difference] = field(default_factory=list)
    """The first of the differences."""
    difference_count: int = 0
    gaps: list[BrokenCycleError] = field(default_factory=list)

    def run(self, cycles: Iterable[RecordedCycle]) -> None:
        """Replay cycles, of each market in the order of their numbers.

        Raises
        ------
        BrokenCycleError
            A cycle or a part of it is missing, and gaps are not skipped.
        ArchiveError
            A market is not one that can be cleared, or the source cannot be read.
        """
        for cycle in cycles:
            market = self.markets.setdefault(cycle.market, MarketReplay(FoldedMarket(cycle.market)))
            self._take(market, cycle)
        if self.study is not None:
            for name in self.markets:
                self.study.end(name, None)

    @property
    def replayed(self) -> int:
        """Number of cycles of markets that were cleared again."""
        return sum(market.replayed for market in self.markets.values())

    def _take(self, market: MarketReplay, cycle: RecordedCycle) -> None:
        expected, market.next_cycle = market.next_cycle, cycle.cycle + 1
        if expected is not None and cycle.cycle < expected:
            reason = f"it comes behind cycle {expected - 1}"
            raise ArchiveError(f"market {cycle.market}, cycle {cycle.cycle}: {reason}")
        if expected is not None and (missing := gap(cycle.market, expected, cycle.cycle)):
            self._break(market, missing, cycle.cycle - 1)
        if cycle.oldest and cycle.fault():
            self._forget(market)
            market.cut += cycle.cycle in self.within
            return
        try:
            head = cycle.whole()
            if head.market_time_ms < market.time_ms:
                reason = f"its market time lies before {market.time_ms}, that of the last cycle"
                raise BrokenCycleError(cycle.market, cycle.cycle, reason)
            market.time_ms = head.market_time_ms
            if self.study is not None and head.state not in GOES_ON:
                self.study.end(head.market, head.market_time_ms)
            if cycle.cycle < self.within.stop:
                self._fold(market, head, cycle)
        except BrokenCycleError as error:
            self._break(market, error, cycle.cycle)

    def _fold(self, market: MarketReplay, head: CycleRecorded, cycle: RecordedCycle) -> None:
        wanted = cycle.cycle in self.within
        if (head.frame is FrameKind.NONE) == (head.state is MarketState.CLEARED):
            reason = f"it is {head.state}, with a frame of {head.frame}"
            raise BrokenCycleError(head.market, head.cycle, reason)
        if head.frame is FrameKind.NONE:
            if has_results(head):
                reason = f"it is {head.state}, yet has prices or quantities"
                raise BrokenCycleError(head.market, head.cycle, reason)
            market.not_cleared += wanted
            return
        if head.frame is FrameKind.CHANGES and not market.known:
            if wanted and market.broken is not None:
                self._note(market.broken)
                market.broken = None
            market.before_key_frame += wanted
            return
        try:
            for frame in cycle.frames:
                market.fold.apply(frame)
        except FrameError as error:
            raise BrokenCycleError(head.market, head.cycle, str(error)) from error
        market.known, market.broken = True, None
        if wanted:
            self._clear(market, head)

    def _clear(self, market: MarketReplay, head: CycleRecorded) -> None:
        auction = rebuilt(head, market.fold)
        result = cleared(auction.arrays, head)
        found = differences(head, market.fold, auction, result)
        self.difference_count += len(found)
        self.found += found[: DIFFERENCES_KEPT - len(self.found)]
        market.replayed += 1
        market.last_cycle = head.cycle
        if market.first_cycle is None:
            market.first_cycle = head.cycle
        if self.study is not None:
            self.study.take(head, auction, result)

    def _break(self, market: MarketReplay, error: BrokenCycleError, last: int) -> None:
        """Forget a market; what broke before the cycles to replay matters if it lasts to them."""
        self._forget(market)
        if last < self.within.start:
            market.broken = error
        elif error.cycle < self.within.stop:
            self._note(error)

    def _forget(self, market: MarketReplay) -> None:
        market.known = False
        market.fold = FoldedMarket(market.fold.market)
        if self.study is not None:
            self.study.end(market.fold.market, None)

    def _note(self, error: BrokenCycleError) -> None:
        if not self.skip_gaps:
            raise error
        self.gaps.append(error)


def cleared(market: MarketArrays, head: CycleRecorded) -> ClearedArrays:
    """Clear a market of a cycle, and check the result as the service does.

    Raises
    ------
    ArchiveError
        The library refuses the market, or its checker the result.
    """
    try:
        result = clear_arrays(market)
    except ClearingInputError as error:
        raise ArchiveError(f"market {head.market}, cycle {head.cycle}: {error}") from error
    if violations := verify_arrays(market, result):
        raise ArchiveError(
            f"market {head.market}, cycle {head.cycle}: this build clears it wrongly: "
            f"{violations[0]}"
        )
    return result
