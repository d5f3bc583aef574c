"""What happens to prices and usage in a step: taken, rated when due, corrected, forgotten."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from walras_billing.charge_events import (
    charge_event,
    gap_event,
    pending_outputs,
    quarantined_record,
    quarantined_span,
)
from walras_billing.decoding import decode_usage
from walras_billing.prices import Version
from walras_billing.rating import Piece, Rated, rated
from walras_billing.state import BillingState
from walras_billing.usage_faults import DAY_MS, Fault, UsageFault, time_fault
from walras_billing.usage_line import UsageLine, line_of
from walras_contracts.charges import GapEnd
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_runtime.records import Barrier, Output, Record, emit


@dataclass(frozen=True, slots=True)
class Rules:
    """How usage is rated, and how long it is remembered; all in ms of market time.

    ``price_grace_ms``: a line is rated in the first step that far behind its end.
    ``look_back_ms``: usage older than that is rejected, younger usage is corrected.
    ``future_tolerance_ms``: how far usage may end beyond the barrier behind it.
    ``max_price_age_ms``: an older price is unknown; None: a price counts until the next.
    """

    price_grace_ms: int
    look_back_ms: int
    future_tolerance_ms: int
    max_price_age_ms: int | None


@dataclass(slots=True)
class Work:
    """One step under way: what it may look at, and what it has decided so far."""

    state: BillingState
    rules: Rules
    partition: int
    barrier: Barrier
    outputs: list[Output] = field(default_factory=list)
    late_prices: dict[str, int] = field(default_factory=dict)
    """By market the earliest time of the new prices that lies in time rated already."""
    cut: dict[UsageLine, None] = field(default_factory=dict)
    """Lines that lost time after they had been rated."""
    new: dict[UsageLine, None] = field(default_factory=dict)
    """Lines taken in this step; late ones are rated in it, as if never rated before."""

    @property
    def now_ms(self) -> int:
        """Market time of the step."""
        return self.barrier.market_time_ms

    def write(self, event: Event) -> None:
        """Emit an event to the stage's own partition."""
        self.outputs.append(emit(event, partition=self.partition))


def take_price(work: Work, price: PricePublished) -> None:
    """Take a price record into the history; one for a time that was rated already is late."""
    state = work.state
    pools: dict[str, int | None] = {pool.pool: pool.price_micro for pool in price.pools}
    version = Version(work.barrier.number, state.clock_ms, pools)
    state.put_price(price.market, price.market_time_ms, version)
    if price.market_time_ms < state.rated_until_ms:
        earliest_ms = work.late_prices.get(price.market, price.market_time_ms)
        work.late_prices[price.market] = min(earliest_ms, price.market_time_ms)


def take_usage(work: Work, records: Iterable[Record]) -> None:
    """Take a step's usage, by source and number, so that the order inside a step is nothing."""
    accepted: list[tuple[UsageLine, Record]] = []
    for record in records:
        usage = decode_usage(record)
        rules = work.rules
        if not isinstance(usage, Fault):
            times = (work.now_ms, rules.look_back_ms, rules.future_tolerance_ms)
            fault = time_fault(usage.end_ms, *times)
            if fault is None:
                line = line_of(usage, rules.price_grace_ms, rules.max_price_age_ms)
                accepted.append((line, record))
                continue
            usage = fault
        work.write(quarantined_record(record, usage))
    accepted.sort(key=_by_number)
    for line, record in accepted:
        _take_line(work, line, record)


def _take_line(work: Work, line: UsageLine, record: Record) -> None:
    state = work.state
    taken = state.usage.take(line, work.barrier.number, state.clock_ms)
    if taken.fault is not None:
        work.write(quarantined_record(record, taken.fault))
    if not taken.is_new:
        return
    if taken.fills_gap:
        work.write(gap_event(line.terms, (line.seq, line.seq + 1), GapEnd.FILLED))
    fault = Fault(UsageFault.OVERLAP, "a lower number of the source claims this time")
    for loser, span in taken.overlaps:
        work.write(quarantined_span(loser, fault, span, record))
        state.keep(loser)
        if loser.cuts:
            work.cut[loser] = None
    work.new[line] = None
    state.keep(line)
    state.due.put(line.until_ms, line)
    state.old.put(line.end_ms, line.terms.source)


def rate_usage(work: Work) -> None:
    """Charge what is due, and correct what was charged otherwise than it is known to be now."""
    state, number = work.state, work.barrier.number
    corrected = [*_affected(work)]
    for line in sorted(state.due.take(work.now_ms), key=_by_source):
        state.rated_until_ms = max(state.rated_until_ms, line.end_ms)
        # A late line starts as it would have in time; what came since follows at once.
        _charge(work, line, (), [*rated(line, state.prices, number)])
    for line in sorted(corrected, key=_by_source):
        before: tuple[Piece, ...] = ()
        steps = [*rated(line, state.prices, number)]
        for step in steps:
            if step.barrier != number:
                before = step.pieces
        _charge(work, line, before, [step for step in steps if step.barrier == number])


def _affected(work: Work) -> Iterable[UsageLine]:
    """Yield the lines rated before this step that something in it may have changed."""
    yield from work.cut
    if work.late_prices:
        clock_ms = work.state.clock_ms
        for line in work.state.usage.lines():
            from_ms = work.late_prices.get(line.terms.series)
            if from_ms is None or line.end_ms <= from_ms or line.until_ms > clock_ms:
                continue
            if line not in work.cut and line not in work.new and not line.terms.is_free:
                yield line


def _charge(work: Work, line: UsageLine, before: tuple[Piece, ...], steps: list[Rated]) -> None:
    if not steps:
        return
    numerator = 0
    for step in steps:
        for charge in step.lines:
            numerator += charge.amount_numerator
            work.write(charge_event(line, charge))
    after = steps[-1].pieces
    work.outputs += pending_outputs(line, before, after, work.partition)
    work.state.wallet(line.terms.team, line.terms.pool).spent_numerator += numerator
    pending = any(piece.price_micro is None for piece in after)
    if pending != line.pending:
        line.pending = pending
        work.state.keep(line)


def forget_old(work: Work) -> None:
    """Forget usage beyond the look-back, save what waits for its price, and prices before it.

    Numbers that were missing before forgotten lines never come: they would be rejected as late.
    """
    state = work.state
    before_ms = work.now_ms - work.rules.look_back_ms
    overdue = dict.fromkeys((*state.overdue, *state.old.take(before_ms)))
    state.overdue.clear()
    earliest_ms = before_ms - DAY_MS
    for source in sorted(overdue):
        if source not in state.usage.sources:
            continue
        gone, lost = state.usage.forget(source, before_ms)
        for numbers in lost:
            work.write(gap_event(gone[0].terms, numbers, GapEnd.NEVER))
        for line in gone:
            state.drop(line)
        held = state.usage.sources.get(source)
        if held is not None and held.lines[0].end_ms <= before_ms:
            state.overdue[source] = None
            earliest_ms = min(earliest_ms, *(line.start_ms for line in held.lines))
    state.prune_prices(earliest_ms)


def _by_number(accepted: tuple[UsageLine, Record]) -> tuple[str, int, int]:
    line, record = accepted
    return line.terms.source, line.seq, record.offset


def _by_source(line: UsageLine) -> tuple[str, int]:
    return line.terms.source, line.seq
