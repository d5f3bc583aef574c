"""Facts of the bill: market time at the price in force, nothing after warning and grace."""

from itertools import pairwise

from walras.billing_log.amounts import NUMERATOR_PER_MICRO, exact_credits_text
from walras.demo_nodes.evidence import Evidence, PriceHistory
from walras.demo_nodes.finding import Finding
from walras_contracts.charges import ChargeRated, ChargeReason
from walras_contracts.work import DrainState, UsageMetered, WorkClass

Span = tuple[int, int]


def billing_fact(evidence: Evidence) -> Finding:
    """Check use and charges of the job against the prices, exactly."""
    found = Finding(
        "billing", "the job paid its market time at min(price, limit), nothing after the grace"
    )
    usage, rests = _usage(evidence)
    lines = [c for c in evidence.charges if (c.team, c.job) == evidence.subject]
    lines = [c for c in lines if not any(_lies_in(c, rest) for rest in rests)]
    warned = next(
        (
            d
            for d in evidence.drains
            if (d.team, d.job) == evidence.subject and d.state is DrainState.WARNED
        ),
        None,
    )
    if not found.expect(bool(usage), "no use of it is in the log") or not found.expect(
        warned is not None, "it was never warned"
    ):
        return found
    assert warned is not None
    grace_end_ms = warned.at_ms + evidence.scenario.drains.billing_grace
    billable = [u for u in usage if u.billable]
    due, unpriced = due_numerator(billable, evidence.price_history())
    credited = [c for c in evidence.credits if (c.team, c.job) == evidence.subject]
    charged = sum(int(line.amount_numerator) for line in lines)
    charged += sum(int(credit.amount_numerator) for credit in credited)
    found.figures = {
        "billable_ms": sum(u.end_ms - u.start_ms for u in billable),
        "unbilled_ms": sum(u.end_ms - u.start_ms for u in usage if not u.billable),
        "charged_credits": exact_credits_text(charged),
        "charged_micro": charged // NUMERATOR_PER_MICRO,
        "grace_end_ms": grace_end_ms,
        "lines": len(lines),
    }
    _within_the_drain(found, usage, warned.lease, warned.at_ms, grace_end_ms)
    _gapless(found, usage)
    found.expect(not unpriced, f"no price is known for {unpriced[:3]}")
    found.expect(not credited, f"{len(credited)} credits were given")
    firsts = sorted(
        (c.start_ms, c.end_ms)
        for c in lines
        if c.billable and c.corrects is None and c.reason is ChargeReason.USAGE
    )
    wanted = sorted((u.start_ms, u.end_ms) for u in billable)
    found.expect(joined(firsts) == joined(wanted), "what is charged is not the billable time")
    found.expect(_without_overlap(firsts), "some time is charged twice")
    free = [line for line in lines if not line.billable and int(line.amount_numerator)]
    found.expect(not free, f"{len(free)} lines that are not billable cost something")
    late = [line for line in lines if _is_late(line, warned.lease, grace_end_ms)]
    found.expect(not late, f"{len(late)} lines charge time after warning and grace")
    found.expect(
        charged == due,
        f"it was charged {exact_credits_text(charged)} credits; by prices and limit it owes "
        f"{exact_credits_text(due)}",
    )
    return found


def due_numerator(
    usage: list[UsageMetered], history: PriceHistory
) -> tuple[int, list[tuple[int, int]]]:
    """Return what use costs, in 1/(3.6·10¹⁵) µcr, and for which times no price is known."""
    due, unpriced = 0, []
    for each in usage:
        for start_ms, end_ms, price in history.segments(each.start_ms, each.end_ms):
            if price is None:
                unpriced.append((start_ms, end_ms))
                continue
            paid = price if each.limit_micro is None else min(price, each.limit_micro)
            due += paid * each.tariff_ppm * each.quantity_macc * (end_ms - start_ms)
    return due, unpriced


def joined(spans: list[Span]) -> list[Span]:
    """Return sorted spans with those that touch or overlap made one."""
    found: list[Span] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _usage(evidence: Evidence) -> tuple[list[UsageMetered], list[UsageMetered]]:
    """Return the use of the job, each number of a source once, in order; and the rests of starts.

    Of these not all is told or charged yet.
    """
    first: dict[tuple[str, str, int, int], UsageMetered] = {}
    for each in evidence.usage:
        if (each.team, each.job) == evidence.subject:
            first.setdefault((each.lease, each.node, each.attempt, each.seq), each)
    whole = sorted(first.values(), key=lambda u: (u.start_ms, u.seq))
    ran = [each for each in whole if not each.is_rest_of_start]
    return ran, [each for each in whole if each.is_rest_of_start]


def _lies_in(line: ChargeRated, rest: UsageMetered) -> bool:
    within = rest.start_ms <= line.start_ms and line.end_ms <= rest.end_ms
    return line.lease == rest.lease and within


def _within_the_drain(
    found: Finding, usage: list[UsageMetered], lease: str, warned_ms: int, grace_end_ms: int
) -> None:
    """Market class up to the warning, overhang behind it; billed up to the end of the grace."""
    for each in (u for u in usage if u.lease == lease):
        span = f"[{each.start_ms}, {each.end_ms})"
        if each.end_ms > grace_end_ms:
            found.expect(not each.billable, f"{span} is billable after warning and grace")
        if each.end_ms <= warned_ms:
            found.expect(
                each.billable and each.work_class is WorkClass.MARKET,
                f"{span} before the warning is no billable market time",
            )
        elif each.start_ms >= warned_ms:
            found.expect(each.work_class is WorkClass.OVERHANG, f"{span} is no overhang")
        else:
            found.expect(False, f"{span} is not cut at the warning")


def _gapless(found: Finding, usage: list[UsageMetered]) -> None:
    for lease in sorted({u.lease for u in usage}):
        mine = [u for u in usage if u.lease == lease]
        found.expect(
            [u.seq for u in mine] == list(range(len(mine))), f"numbers of {lease} are not dense"
        )
        pairs = pairwise(mine)
        found.expect(
            all(a.end_ms == b.start_ms for a, b in pairs), f"use of {lease} has gaps or overlaps"
        )


def _without_overlap(spans: list[Span]) -> bool:
    return all(a[1] <= b[0] for a, b in pairwise(spans))


def _is_late(line: ChargeRated, lease: str, grace_end_ms: int) -> bool:
    return line.lease == lease and line.end_ms > grace_end_ms and int(line.amount_numerator) != 0
