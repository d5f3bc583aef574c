"""What happens to prices, usage and failed drains in a step.

Usage is taken, rated when due, corrected, given back where a drain failed, forgotten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from walras_billing.charge_encoding import charge_output
from walras_billing.charge_events import (
    credit_event,
    gap_event,
    pending_outputs,
    quarantined_record,
    quarantined_span,
)
from walras_billing.credits import CreditLine, drain_credits, gap_credits
from walras_billing.decoding import decode_usage
from walras_billing.drains import GIVES_BACK, drain_fault, in_order
from walras_billing.prices import Gap, Version
from walras_billing.rating import Piece, Rated, rated
from walras_billing.state import BillingState
from walras_billing.usage_faults import DAY_MS, Fault, UsageFault, time_fault
from walras_billing.usage_line import Cut, UsageLine, line_of
from walras_billing.usage_reading import Followers
from walras_billing.whole_lines import WholeLines
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.charges import GapEnd
from walras_contracts.event import Event
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_contracts.work import DrainStatusChanged, UsageMetered
from walras_runtime.records import Barrier, Output, Record, emit

NO_RECORD: Final = -1
"""Offset of what no record but time showed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How usage is rated, and how long it is remembered; all in ms of market time.

    ``price_grace_ms``: a line is rated in the first step that far behind its end.
    ``look_back_ms``: usage that begins before that is rejected, what ends within it is corrected.
    ``future_tolerance_ms``: how far usage may end beyond the barrier behind it.
    ``max_price_age_ms``: an older price is unknown; None: a price counts until the next.
    ``price_wait_ms``: use that waits for its price longer is given up.
    """

    price_grace_ms: int
    look_back_ms: int
    future_tolerance_ms: int
    max_price_age_ms: int | None
    price_wait_ms: int


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
    late: dict[UsageLine, None] = field(default_factory=dict)
    """Lines taken in this step that were due before it; they are rated for the first time."""
    claimed: dict[str, None] = field(default_factory=dict)
    """Leases of which a drain failed, as this step tells."""

    @property
    def now_ms(self) -> int:
        """Market time of the step."""
        return self.barrier.market_time_ms

    @property
    def earliest_ms(self) -> int:
        """The look-back of the step: usage that begins before it is late.

        A longer look-back than before brings back nothing that is forgotten.
        """
        return max(self.now_ms - self.rules.look_back_ms, self.state.forgotten_ms)

    def write(self, event: Event) -> None:
        """Emit an event to the stage's own partition."""
        self.outputs.append(emit(event, partition=self.partition))


def take_price(work: Work, price: PricePublished) -> None:
    """Take a price record into the history; one for a time that was rated already is late."""
    state = work.state
    pools: dict[str, int | None] = {pool.pool: pool.price_micro for pool in price.pools}
    version = Version(work.barrier.number, state.clock_ms, pools)
    state.put_price(price.market, price.market_time_ms, version)
    _note_late(work, price.market, price.market_time_ms)


def take_price_gap(work: Work, gap: PriceGapPublished) -> None:
    """Take a time without prices into the history, as the price records that its policy makes."""
    policy = Gap.FREE if gap.policy is PriceGapPolicy.UNBILLED else Gap.CARRIED
    version = Version(work.barrier.number, work.state.clock_ms, {})
    work.state.put_price_gap(gap.market, (gap.start_ms, gap.end_ms), policy, version)
    _note_late(work, gap.market, gap.start_ms)


def _note_late(work: Work, market: str, from_ms: int) -> None:
    if from_ms < work.state.rated_until_ms:
        work.late_prices[market] = min(work.late_prices.get(market, from_ms), from_ms)


def take_drains(work: Work, records: Iterable[Record]) -> None:
    """Take a step's failed drains; how others stand costs nothing."""
    failures: list[DrainStatusChanged] = []
    for record in records:
        status = record.event
        if not isinstance(status, DrainStatusChanged) or status.state not in GIVES_BACK:
            continue
        rules = work.rules
        times = (work.now_ms, rules.look_back_ms, rules.future_tolerance_ms)
        fault = drain_fault(status, *times)
        if fault is None:
            failures.append(status)
        else:
            work.write(quarantined_record(record, fault))
    for status in in_order(failures):
        if work.state.failed.take(status, work.barrier.number):
            work.claimed[status.lease] = None


def take_usage(work: Work, records: Iterable[Record]) -> None:
    """Take a step's usage, by source and number, so that the order inside a step is nothing."""
    rules = work.rules
    followers = Followers(
        work.state.usage.sources,
        (work.earliest_ms, work.now_ms + rules.future_tolerance_ms),
        rules.price_grace_ms,
        rules.max_price_age_ms,
    )
    accepted: list[tuple[UsageLine, Record]] = []
    for record in records:
        follower = followers.read(record)
        if follower is not None:
            accepted.append((follower, record))
            continue
        usage = decode_usage(record)
        if not isinstance(usage, Fault):
            # Names first: late use is reported on an invoice, and strangers get none.
            span_ms = (usage.start_ms, usage.end_ms)
            times = (work.now_ms, work.earliest_ms, rules.future_tolerance_ms)
            fault = _name_fault(work, usage) or time_fault(span_ms, *times)
            if fault is None:
                line = line_of(usage, rules.price_grace_ms, rules.max_price_age_ms)
                accepted.append((line, record))
                continue
            usage = fault
        work.write(quarantined_record(record, usage))
    accepted.sort(key=_by_number)
    for line, record in accepted:
        _take_line(work, line, record)


def _name_fault(work: Work, usage: UsageMetered) -> Fault | None:
    """Return that a record's team, pool or market is not known here; None: they are."""
    state = work.state
    if not state.accounts.is_mine(usage.team):
        # Another worker has its wallet, and may have the same record, too.
        reason = f"partition {work.partition} is not that of team {usage.team}"
        return Fault(UsageFault.WRONG_PARTITION, reason)
    if not state.known.has_team(usage.team, usage.start_ms):
        reason = f"no pool's document up to start_ms names team {usage.team}"
        return Fault(UsageFault.UNKNOWN_TEAM, reason)
    if not state.known.has_pool(usage.pool, usage.start_ms):
        reason = f"pool {usage.pool} has no document that counted at start_ms or before"
        return Fault(UsageFault.UNKNOWN_POOL, reason)
    if not (state.prices.knows(usage.market) or state.known.has_market(usage.market)):
        reason = f"market {usage.market} has no price record and no document"
        return Fault(UsageFault.UNKNOWN_MARKET, reason)
    return None


def _take_line(work: Work, line: UsageLine, record: Record) -> None:
    state = work.state
    if state.usage.extend(line):
        _accept(work, line)
        return
    if state.usage.jumps(line):
        reason = f"number {line.seq} contradicts the times of its neighbours by number"
        work.write(quarantined_record(record, Fault(UsageFault.CLOCK_JUMP, reason)))
        return
    taken = state.usage.take(line, work.barrier.number, state.clock_ms)
    if taken.fault is not None:
        work.write(quarantined_record(record, taken.fault))
    if not taken.is_new:
        return
    if taken.fills_gap:
        work.write(gap_event(line.terms, (line.seq, line.seq + 1), GapEnd.FILLED))
    fault = Fault(UsageFault.OVERLAP, "a lower number or attempt claims this time")
    noticed = (record.topic, record.partition, record.offset)
    for loser, span in taken.overlaps:
        work.write(quarantined_span(loser, fault, span, noticed))
        if loser.cuts:
            work.cut[loser] = None
            state.time_held.lose(loser, span[1] - span[0])
        # Nobody knows in which part it was busy.
        loser.split = None
        state.keep(loser)
    _accept(work, line)


def _accept(work: Work, line: UsageLine) -> None:
    state = work.state
    if line.until_ms <= state.clock_ms:
        work.late[line] = None
    state.accept(line)


def rate_usage(work: Work) -> None:
    """Charge what is due, and correct what was charged otherwise than it is known to be now."""
    state, number = work.state, work.barrier.number
    corrected = [*_affected(work)]
    whole = WholeLines(state.prices, state.time_held, work.partition)
    has_claims = bool(state.failed)
    due = sorted(state.due.take(work.now_ms), key=_by_source)
    state.rated_until_ms = max([state.rated_until_ms, *[line.end_ms for line in due]])
    for line in due:
        state.unrated.rate(line)
        if not (has_claims and state.failed.of(line)):
            charge = whole.rated(line)
            if charge is not None:
                work.outputs.append(charge)
                continue
        state.time_held.count(line)
        # A late line starts as it would have in time; what came since follows at once.
        steps = [*rated(line, state.prices, number)]
        _charge(work, line, (), steps)
        _give_back(work, line, [credit for _, credit in _drain_credits(work, line, steps)])
    state.book_whole(whole.sales())
    for line in work.late:
        state.time_held.count_late(line)
    for line in sorted(corrected, key=_by_source):
        before: tuple[Piece, ...] = ()
        steps = [*rated(line, state.prices, number)]
        for step in steps:
            if step.barrier != number:
                before = step.pieces
        _charge(work, line, before, [step for step in steps if step.barrier == number])
        given = _drain_credits(work, line, steps)
        _give_back(work, line, [credit for since, credit in given if since == number])


def _affected(work: Work) -> Iterable[UsageLine]:
    """Yield the lines rated before this step that something in it may have changed."""
    yield from work.cut
    clock_ms = work.state.clock_ms
    of_claims: dict[UsageLine, None] = {}
    for lease in work.claimed:
        for line in work.state.usage.of_lease(lease):
            if line.until_ms <= clock_ms and line not in work.cut and line not in work.late:
                of_claims[line] = None
    yield from of_claims
    if work.late_prices:
        for line in work.state.usage.lines():
            from_ms = work.late_prices.get(line.terms.series)
            if from_ms is None or line.end_ms <= from_ms or line.until_ms > clock_ms:
                continue
            if line in work.cut or line in work.late or line in of_claims:
                continue
            if not line.terms.is_free:
                yield line


def _charge(work: Work, line: UsageLine, before: tuple[Piece, ...], steps: list[Rated]) -> None:
    if not steps:
        return
    charges = [charge for step in steps for charge in step.lines]
    for charge in charges:
        work.outputs.append(charge_output(line, charge, work.partition))
    after = steps[-1].pieces
    work.outputs += pending_outputs(line, before, after, work.partition)
    work.state.book(line, charges, before, after)
    pending = any(piece.price_micro is None for piece in after)
    if pending != line.pending:
        line.pending = pending
        work.state.keep(line)


def _drain_credits(
    work: Work, line: UsageLine, steps: Sequence[Rated]
) -> list[tuple[int, CreditLine]]:
    failed = work.state.failed
    claims = failed.of(line) if failed else ()
    return [*drain_credits(line, steps, claims)] if claims else []


def _give_back(work: Work, line: UsageLine, given: Iterable[CreditLine]) -> None:
    for credit in given:
        work.write(credit_event(line, credit))
        work.state.credit(line.terms.team, line.terms.pool, -credit.amount_numerator)


def forget_old(work: Work) -> None:
    """Forget usage that ended before the look-back, and what only such usage needs.

    That is exactly as long as it takes to charge no instant twice: a line is remembered until it
    ends at or before the look-back of a step, and all that later steps take begins there or later.
    A line that waits for its price, or is the one before a gap in the numbers, stays longer for
    what becomes of that, with the later ones of its source. Numbers that were missing before
    forgotten lines never come: they would be rejected as late. The record before such a gap is
    given back.
    """
    state = work.state
    before_ms = state.forgotten_ms = work.earliest_ms
    overdue = dict.fromkeys((*state.overdue, *state.old.take(before_ms)))
    state.overdue.clear()
    # What is remembered may have begun the longest interval earlier.
    earliest_ms = before_ms - DAY_MS
    for source in sorted(overdue):
        if source not in state.usage.sources:
            continue
        _give_up(work, state.usage.sources[source].lines)
        gone, lost = state.usage.forget(source, before_ms, work.now_ms)
        for gap in lost:
            work.write(gap_event(gap.after.terms, gap.numbers, GapEnd.NEVER))
            if gap.before is not None:
                *_, last = rated(gap.before, state.prices, work.barrier.number)
                _give_back(
                    work, gap.before, gap_credits(gap.before, last, state.failed.of(gap.before))
                )
        for line in gone:
            state.drop(line)
        held = state.usage.sources.get(source)
        if held is not None and held.lines[0].end_ms <= before_ms:
            state.overdue[source] = None
            earliest_ms = min(earliest_ms, *(line.start_ms for line in held.lines))
    state.failed.forget(before_ms, state.usage.has_lease)
    state.prune_prices(earliest_ms)


def _give_up(work: Work, lines: Iterable[UsageLine]) -> None:
    """Quarantine use that waited too long for its price; nothing that comes later charges it."""
    state, number = work.state, work.barrier.number
    for line in lines:
        if not line.pending or line.end_ms > work.now_ms - work.rules.price_wait_ms:
            continue
        *_, last = rated(line, state.prices, number)
        waiting = tuple(piece for piece in last.pieces if piece.price_micro is None)
        reason = f"no price became known within {work.rules.price_wait_ms} ms"
        for piece in waiting:
            span = (piece.start_ms, piece.end_ms)
            noticed = (UsageMetered.TOPIC, work.partition, NO_RECORD)
            fault = Fault(UsageFault.NEVER_PRICED, reason)
            work.write(quarantined_span(line, fault, span, noticed))
            line.cuts = (*line.cuts, Cut(number, *span))
            state.time_held.lose(line, span[1] - span[0])
        work.outputs += pending_outputs(line, waiting, (), work.partition)
        state.book(line, (), waiting, ())
        line.pending = False
        state.keep(line)


def _by_number(accepted: tuple[UsageLine, Record]) -> tuple[str, str, int, int, int]:
    """Sort what claims an instant first before what loses it."""
    line, record = accepted
    terms = line.terms
    return terms.lease, terms.node, terms.attempt, line.seq, record.offset


_by_source = attrgetter("terms.source", "seq")
