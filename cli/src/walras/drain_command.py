"""``walras drain``: has a job or a node emptied, and shows how that goes."""

import argparse
import json
from typing import Any, Final

from walras.billing_log.window import moment
from walras.drain import job_order, node_statement, node_watch
from walras.drain.job_order import OrderWatch
from walras.drain.node_statement import Goal
from walras.drain.node_watch import NodeWatch
from walras.drain.progress import End, Outcome, follow
from walras.instance_arguments import OK, say
from walras.jobs_log.arguments import (
    EXIT_CODES,
    JSON_FAULT,
    NOT_KNOWN,
    REFUSED,
    add_broker_arguments,
    add_waiting_arguments,
    broker_of,
    checked_id,
    guarded,
    job_target,
)
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.items import Log
from walras.jobs_log.kafka_log import open_log
from walras.jobs_log.telling import SOURCE
from walras.jobs_log.units import duration_ms
from walras_contracts.identifiers import digest_of

REASON_MAX: Final = 500
LONGEST_MS: Final = 10 * 366 * 86_400_000
EXITS: Final = {
    Outcome.DONE: OK,
    Outcome.WRITTEN: OK,
    Outcome.OTHERWISE: REFUSED,
    Outcome.NOT_KNOWN: NOT_KNOWN,
}

DESCRIPTION: Final = """\
Have a running job leave its devices, or a node be emptied, and follow that to its end: each change,
and at least every 10 s what it waits for.

A job (TEAM/JOB) is warned, given its time to save, ended, and verified gone; then it waits for its
turn again. --cancel takes an order back, as long as no part of the job is being ended.

A node (NODE) is stated in the inventory once more, as draining: nothing starts there any more, and
what runs there leaves, if all of it can; while something declares that it cannot be drained, nobody
is asked. That counts from the next full hour of market time; --urgent counts at once, and asks all
to leave. --off switches off what is drained, --on (or --cancel) takes it back into service, --fence
states that nothing of what was started before runs there any more: its devices are free then, even
if their agent never says so."""

EPILOG: Final = f"""\
An order's id is printed; with --key it is the same each time, and the order counts once.
An importer that goes on stating a node as active overrules this at the next full hour: correct its
source, too. Progress is told on standard error, the end on standard output.

exit 0: the job's devices are free, or its run ended by itself; with --cancel it runs on; the node
is drained, off, on, fenced. exit 3: a drain that failed, or that somebody cancelled; a cancel that
came too late; a node beyond its deadline, or that somebody else stated otherwise.
{EXIT_CODES}
{JSON_FAULT}

examples:  walras drain vision/train-7 --reason "new driver"
           walras drain rack3-07 --urgent
           walras drain rack3-07 --off"""


def add_drain_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``drain`` command."""
    parser = subparsers.add_parser(
        "drain",
        help="have a job or a node emptied, and show how that goes",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help="NODE, or TEAM/JOB")
    parser.add_argument("--cancel", action="store_true", help="take it back")
    parser.add_argument("--reason", metavar="TEXT", help="of a job's order: why, for its team")
    parser.add_argument("--key", metavar="TEXT", help="of a job's order: makes its id")
    states = parser.add_mutually_exclusive_group()
    states.add_argument("--off", action="store_true", help="the drained node is switched off")
    states.add_argument("--on", action="store_true", help="the node is in service again")
    parser.add_argument("--urgent", action="store_true", help="of a node: at once, and all leave")
    parser.add_argument("--fence", action="store_true", help="nothing started before runs there")
    parser.add_argument("--force", action="store_true", help="--off although it is not drained")
    parser.add_argument(
        "--within", metavar="TIME", help="how long a node's emptying may take, such as 30min"
    )
    add_waiting_arguments(parser, None)
    add_broker_arguments(parser)
    parser.set_defaults(run=run_drain)


def run_drain(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("drain", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    is_job = "/" in arguments.target
    _check_flags(arguments, is_job=is_job)
    if is_job:
        team, job = job_target(arguments.target)
        with open_log(broker_of(arguments), job_order.TOPICS) as log:
            end, document = drain_job(log, team, job, arguments)
    else:
        node = checked_id(arguments.target, "node")
        within_ms = _within_ms(arguments.within)
        with open_log(broker_of(arguments), node_statement.TOPICS) as log:
            end, document = drain_node(log, node, goal_of(arguments), within_ms, arguments)
    if arguments.json:
        print(json.dumps({"outcome": end.outcome.value, "words": end.words, **document}))
    else:
        print(end.words)
    return EXITS[end.outcome]


def drain_job(
    log: Log, team: str, job: str, arguments: argparse.Namespace
) -> tuple[End, dict[str, Any]]:
    """Order the drain of a job, or its end, and follow it.

    Raises
    ------
    JobsLogError
        There is nothing to order, or the log cannot be read or written.
    """
    cancel = arguments.cancel
    target = job_order.find_target(log, team, job, cancel=cancel)
    reason = arguments.reason or "ordered with walras drain"
    order = job_order.order_of(log, target, cancel=cancel, reason=reason, key=arguments.key)
    place = log.write(order, f"walras/drain/{order.order}", SOURCE)
    wish = "cancel the drain of" if cancel else "drain"
    say(f"order {order.order}: {wish} {target.key}, lease {target.lease}")
    document: dict[str, Any] = {"job": target.key, "order": order.model_dump(mode="json")}
    watch = OrderWatch(target, place, cancel=cancel)
    if arguments.no_wait:
        words = f"{target.key}: ordered; `walras jobs {target.key}` shows how it goes"
        end = End(Outcome.WRITTEN, words)
    else:
        end = follow(
            log, job_order.watches_of(target), watch, say, timeout_ms=_timeout_ms(arguments)
        )
    session = watch.session
    document["session"] = None if session is None else session.model_dump(mode="json")
    return end, document


def drain_node(
    log: Log, node: str, goal: Goal, within_ms: int | None, arguments: argparse.Namespace
) -> tuple[End, dict[str, Any]]:
    """State a node as draining, off or active, or fence it, and follow what becomes of it.

    Raises
    ------
    JobsLogError
        There is no such node, it is to be off and is not drained, or the log cannot be read or
        written.
    """
    now = node_statement.find_node(log, node)
    now_ms = node_statement.market_time_ms(log, node)
    wanted = node_statement.statement(
        now,
        goal,
        urgent=arguments.urgent,
        fence=arguments.fence,
        force=arguments.force,
        within_ms=within_ms,
        now_ms=now_ms,
    )
    if goal is Goal.OFF and not now.is_empty:
        say(f"warning: {node}: {node_statement.what_force_does(now)}")
    counts_from_ms = node_statement.counts_from_ms(wanted, now_ms)
    if node_statement.is_stated(now, wanted):
        say(f"{node}: is stated as {wanted.state.value} already; nothing was written")
    else:
        name = f"walras/node/{digest_of(wanted.payload().decode())}"
        log.write(wanted, name, node_statement.SOURCE)
        since = "at once" if counts_from_ms is None else f"from {moment(counts_from_ms)} on"
        fenced = ", fenced (that counts at once)" if wanted.fenced else ""
        say(f"{node}: stated as {wanted.state.value}, counts {since}{fenced}")
    watch = NodeWatch(now, wanted, goal, counts_from_ms)
    if arguments.no_wait:
        end = End(Outcome.WRITTEN, f"{node}: stated; `walras nodes {node}` shows how it goes")
    else:
        end = follow(
            log, node_watch.watches_of(node), watch, say, timeout_ms=_timeout_ms(arguments)
        )
    published, drain = watch.published, watch.drain
    return end, {
        "node": node,
        "statement": wanted.model_dump(mode="json"),
        "counts_from_ms": counts_from_ms,
        "published": None if published is None else published.model_dump(mode="json"),
        "drain": None if drain is None else drain.model_dump(mode="json"),
    }


def goal_of(arguments: argparse.Namespace) -> Goal:
    """Return what is asked of a node: a fence alone leaves its state."""
    if arguments.off:
        return Goal.OFF
    if arguments.on or arguments.cancel:
        return Goal.ON
    drains = arguments.urgent or arguments.within is not None or not arguments.fence
    return Goal.DRAIN if drains else Goal.KEEP


def _check_flags(arguments: argparse.Namespace, *, is_job: bool) -> None:
    of_node = ("off", "on", "urgent", "fence", "force", "within")
    of_job = ("reason", "key")
    wrong = [name for name in (of_node if is_job else of_job) if getattr(arguments, name)]
    if wrong:
        of, is_named = ("nodes", "a job") if is_job else ("jobs", "a node")
        raise JobsLogError(
            Fault.BAD_ARGUMENT,
            f"--{wrong[0]} is for {of}, and {arguments.target} names {is_named}",
            "a job is written TEAM/JOB",
        )
    if arguments.force and not arguments.off:
        raise JobsLogError(Fault.BAD_ARGUMENT, "--force goes with --off")
    if arguments.cancel and arguments.off:
        raise JobsLogError(Fault.BAD_ARGUMENT, "--cancel takes a drain back, --off ends it")
    if arguments.within is not None and (arguments.off or arguments.on or arguments.cancel):
        raise JobsLogError(Fault.BAD_ARGUMENT, "--within is of a drain, and nothing else")
    for name in of_job:
        text = getattr(arguments, name)
        if text is not None and not 1 <= len(text) <= REASON_MAX:
            raise JobsLogError(
                Fault.BAD_ARGUMENT, f"--{name} has {len(text)} characters, not 1 to {REASON_MAX}"
            )


def _within_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        within_ms = duration_ms(text)
    except ValueError as error:
        raise JobsLogError(Fault.BAD_ARGUMENT, f"--within {error}") from error
    if within_ms > LONGEST_MS:
        raise JobsLogError(Fault.BAD_ARGUMENT, f"--within {text} is longer than ten years")
    return within_ms


def _timeout_ms(arguments: argparse.Namespace) -> int | None:
    return None if arguments.timeout_s is None else arguments.timeout_s * 1000
