"""What makes drain ask for a lease by itself: orders, maintenance, low use, pressure.

Each step finds which leases have a cause to leave, and :mod:`walras_drain.requests` decides what
placement is told. What is leaving already, or left with devices that are not free, is not asked.
"""

from walras_contracts.capacity import NodeHealthReported
from walras_contracts.drains import DrainOrdered, DrainRequested, SessionState, VacateReason
from walras_contracts.identifiers import job_key
from walras_drain import notices, pressure
from walras_drain.lease_table import Holding
from walras_drain.maintenance import asked_to_leave
from walras_drain.node_watch import occupants_of
from walras_drain.occupancy import Use
from walras_drain.orders import PREFIX as ORDER
from walras_drain.orders import Order, counts, ordered_lease
from walras_drain.pressure import ADVISED, PRESSED, Advice, Candidate, is_to_be_advised
from walras_drain.requests import PREFIX as REQUEST
from walras_drain.requests import first_cause, next_move
from walras_drain.scores import chain_holds, score_ppm
from walras_drain.state import DrainServiceState
from walras_drain.writing import Writer

Causes = dict[str, dict[VacateReason, bool]]
"""By lease, the reasons that hold."""


def note_order(state: DrainServiceState, writer: Writer, order: DrainOrdered) -> None:
    """Take an order; one about a job that holds no lease has nothing to drain."""
    lease = ordered_lease(order, state.leases.of_job(job_key(order.team, order.job)))
    if lease is None or not counts(order, state.orders.get(lease.lease)):
        return
    taken = Order(order.order, order.ordered_ms, writer.now_ms, active=not order.cancel)
    state.orders[lease.lease] = taken
    writer.keep(ORDER + lease.lease, taken.dump())


def note_health(state: DrainServiceState, writer: Writer, report: NodeHealthReported) -> None:
    """Take how busy the leases of a node are."""
    terms = state.terms.in_force(writer.now_ms)
    state.low_use.report(
        report,
        state.leases.on_node(report.node),
        threshold_ppm=terms.low_use_ppm,
        long_ms=terms.low_use_ms,
        now_ms=writer.now_ms,
    )


def ask_placement(state: DrainServiceState, writer: Writer) -> None:
    """Ask placement for the leases that have a cause to leave; take back what has none any more."""
    _follow_pressure(state, writer)
    causes: Causes = {}
    caused_ms: dict[str, int] = {}
    for lease, order in state.orders.items():
        if order.stands(state.sessions.of_lease(lease)):
            causes.setdefault(lease, {})[VacateReason.ORDERED] = True
            caused_ms[lease] = order.taken_ms
    for node in sorted(state.nodes.emptying):
        occupants = occupants_of(state, node)
        emptying = state.emptying.get(node)
        since_ms = writer.now_ms if emptying is None else emptying.since_ms
        for lease in asked_to_leave(occupants, urgent=state.nodes.is_urgent(node)):
            causes.setdefault(lease, {})[VacateReason.MAINTENANCE] = True
            caused_ms[lease] = max(since_ms, caused_ms.get(lease, 0))
    for lease in state.low_use.standing:
        held = state.leases.leases.get(lease)
        if held is not None and held.is_drainable:
            causes.setdefault(lease, {})[VacateReason.LOW_USE] = True
    for lease, request in state.requests.items():
        holding = state.leases.leases.get(lease)
        if holding is not None and request.reason is VacateReason.PRESSURE:
            pressed = holding.market in state.pressed
            causes.setdefault(lease, {})[VacateReason.PRESSURE] = pressed
    for market in sorted(state.pressed):
        for lease in _chosen(state, writer, market, state.nodes.markets[market]):
            causes.setdefault(lease, {})[VacateReason.PRESSURE] = True
    for lease in sorted({**causes, **state.requests}):
        wanted = first_cause(causes.get(lease, {}))
        _move(state, writer, lease, wanted, caused_ms.get(lease, 0))


def forget_lease(state: DrainServiceState, writer: Writer, lease: str) -> None:
    """Forget the causes of a lease that is gone."""
    if state.requests.pop(lease, None) is not None:
        writer.keep(REQUEST + lease, None)
    if state.orders.pop(lease, None) is not None:
        writer.keep(ORDER + lease, None)
    if state.advised.pop(lease, None) is not None:
        writer.keep(ADVISED + lease, None)
    state.low_use.forget(lease)


def _move(
    state: DrainServiceState,
    writer: Writer,
    lease: str,
    wanted: VacateReason | None,
    caused_ms: int,
) -> None:
    holding = state.leases.leases.get(lease)
    if holding is None:
        return
    request = state.requests.get(lease)
    move = next_move(
        wanted,
        request,
        state.sessions.of_lease(lease),
        now_ms=writer.now_ms,
        distance_ms=state.terms.in_force(writer.now_ms).minimum_distance_ms,
        caused_ms=caused_ms,
    )
    if move.request is None and request is not None:
        del state.requests[lease]
        writer.keep(REQUEST + lease, None)
    elif move.request is not None and move.request != request:
        state.requests[lease] = move.request
        writer.keep(REQUEST + lease, move.request.dump())
    if move.tell is not None and move.reason is not None:
        writer.tell(
            DrainRequested(
                lease=lease,
                job=holding.job,
                team=holding.team,
                reason=move.reason,
                cancel=move.tell,
                requested_ms=writer.now_ms,
            )
        )


def _follow_pressure(state: DrainServiceState, writer: Writer) -> None:
    """Find the markets that are pressed, and advise those who may have to leave them."""
    terms = state.terms.in_force(writer.now_ms)
    # A market whose last nodes went may be pressed still; after a restart only that is known of it.
    for market in sorted({**state.nodes.markets, **state.pressed}):
        use = state.nodes.markets.get(market, Use())
        is_pressed, was_pressed = use.reaches(terms.pressure_ppm), market in state.pressed
        if is_pressed and not was_pressed:
            state.pressed[market] = writer.now_ms
            writer.keep(PRESSED + market, str(writer.now_ms).encode())
            _advise(state, writer, market, use, state.leases.by_market.get(market, {}))
        elif was_pressed and not is_pressed:
            del state.pressed[market]
            writer.keep(PRESSED + market, None)
        elif is_pressed:
            new = {name: None for name in state.leases.new if _market(state, name) == market}
            _advise(state, writer, market, use, new)


def _chosen(state: DrainServiceState, writer: Writer, market: str, use: Use) -> list[str]:
    terms = state.terms.in_force(writer.now_ms)
    leaving_macc, candidates = 0, []
    for session in state.sessions.open_sessions():
        holding = state.leases.leases.get(session.lease)
        if holding is not None and holding.market == market:
            leaving_macc += state.nodes.counted_macc(holding)
    for lease in state.requests:
        holding = state.leases.leases[lease]
        if holding.market == market and state.sessions.open_of_lease(lease) is None:
            leaving_macc += state.nodes.counted_macc(holding)
    if not use.reaches(terms.pressure_ppm, less_macc=leaving_macc):
        return []
    # In whatever order: who is chosen follows from what they are.
    for lease in state.leases.opportunistic.get(market, {}):
        holding = state.leases.leases[lease]
        counted_macc = state.nodes.counted_macc(holding)
        if counted_macc == 0 or not holding.is_drainable:
            continue
        if _is_asked(state, holding, writer.now_ms):
            continue
        score = score_ppm(
            holding.drainability,
            state.histories.of_job(holding.job_key),
            terms,
            chain=chain_holds(holding.run, terms),
        )
        candidates.append(Candidate(lease, counted_macc, score, holding.granted_ms))
    return pressure.chosen(use, leaving_macc, candidates, terms.pressure_ppm)


def _is_asked(state: DrainServiceState, lease: Holding, now_ms: int) -> bool:
    """Whether asking a lease would change nothing: it is asked, leaves, or was asked just now."""
    if lease.lease in state.requests:
        return True
    session = state.sessions.of_lease(lease.lease)
    if session is None:
        return False
    if session.state is not SessionState.CANCELLED or session.ended_ms is None:
        return True
    distance_ms = state.terms.in_force(now_ms).minimum_distance_ms
    return now_ms - session.ended_ms < distance_ms


def _advise(
    state: DrainServiceState, writer: Writer, market: str, use: Use, leases: dict[str, None]
) -> None:
    now_ms, since_ms = writer.now_ms, state.pressed[market]
    advice = Advice(now_ms, now_ms + state.terms.in_force(now_ms).advisory_ms)
    opportunistic = state.leases.opportunistic.get(market, {})
    for name in sorted(leases):
        lease = state.leases.leases[name]
        if name in opportunistic or not lease.is_drainable:
            continue
        if not is_to_be_advised(state.advised.get(name), since_ms, now_ms):
            continue
        if state.sessions.open_of_lease(name) is not None:
            continue
        state.advised[name] = advice
        writer.keep(ADVISED + name, advice.dump())
        writer.tell_once(notices.advisory(lease, use.ppm(), advice.expires_ms, now_ms))


def _market(state: DrainServiceState, lease: str) -> str:
    return state.leases.leases[lease].market
