"""``walras quota TEAM``: what a team may occupy now, and on whose word."""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from walras_client.ladder import Answer
from walras_client.reader import QuotaReader, ReaderOptions

EXIT_ANSWERED = 0
EXIT_UNKNOWN = 4
FILE_VARIABLE = "WALRAS_QUOTA_FILE"


def add_quota_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of ``walras``."""
    parser = subparsers.add_parser(
        "quota",
        help="what a team may occupy now, from market, snapshot, file or contracted floor",
        description=(
            "Asks the market, the snapshot in Redis and the file kept on disk; where their quotas "
            "are too old, the contracted floor counts. The answer names source, epoch and age. "
            "Exit code 0: known, 4: not known."
        ),
    )
    parser.add_argument("team", help="id of the team")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument(
        "--redis", default=os.environ.get("WALRAS_REDIS_URL"), help="Redis (WALRAS_REDIS_URL)"
    )
    parser.add_argument(
        "--file",
        type=Path,
        default=_default_file(),
        help=f"file that keeps the last answer ({FILE_VARIABLE}; %(default)s)",
    )
    parser.add_argument("--no-file", action="store_true", help="keep and read no file")
    parser.add_argument("--log-id", help="believe this log only")
    parser.add_argument(
        "--max-age-s",
        type=_positive,
        default=120,
        help="older quotas do not count, seconds (%(default)s)",
    )
    parser.add_argument(
        "--timeout-s", type=_positive, default=5, help="time for each source (%(default)s)"
    )
    parser.set_defaults(run=run_quota)


def run_quota(args: argparse.Namespace) -> int:
    """Print the answer; return 0 where the quota is known, 4 where it is not."""
    options = ReaderOptions(
        bootstrap=args.bootstrap,
        redis_url=args.redis,
        file=None if args.no_file else args.file,
        log_id=args.log_id,
        max_quota_age_ms=args.max_age_s * 1000,
        timeout_ms=args.timeout_s * 1000,
    )
    reader = QuotaReader(options)
    answer = asyncio.run(reader.read(args.team))
    if args.json:
        print(json.dumps(as_document(answer), sort_keys=True))
    else:
        print("\n".join(as_lines(answer)))
        if reader.file_written is False:
            print(f"note: {args.file} could not be written")
    return EXIT_UNKNOWN if answer.quotas is None else EXIT_ANSWERED


def as_document(answer: Answer) -> dict[str, Any]:
    """Return the answer for ``--json``; what is not known is null."""
    place, age = answer.place, answer.age
    return {
        "team": answer.team,
        "source": answer.source.value,
        "reason": answer.reason,
        "log_id": None if place is None else place.log_id,
        "epoch": None if place is None else place.epoch,
        "cycle": None if place is None else place.cycle,
        "barrier": None if place is None else place.barrier,
        "published_at_ms": None if place is None else place.published_at_ms,
        "age_ms": None if age is None else age.ms,
        "age_barriers": None if age is None else age.barriers,
        "granted_in_cycle": answer.granted_in,
        "quotas": None
        if answer.quotas is None
        else {
            market: {
                "allocated_macc": quota.allocated_macc,
                "opportunistic_macc": quota.opportunistic_macc,
            }
            for market, quota in answer.quotas.items()
        },
        "scaled_markets": list(answer.scaled),
        "tried": {source.value: verdict for source, verdict in answer.tried},
    }


def as_lines(answer: Answer) -> list[str]:
    """Return the answer for people."""
    lines = [f"{answer.team}: from {answer.source.value} ({answer.reason})"]
    if answer.place is not None:
        age = "unknown" if answer.age is None or answer.age.ms is None else f"{answer.age.ms} ms"
        place = answer.place
        lines.append(
            f"  epoch {place.epoch}, cycle {place.cycle}, barrier {place.barrier}, age {age}"
        )
    if answer.quotas is None:
        lines.append("  quota unknown: neither zero nor free")
    for market, quota in (answer.quotas or {}).items():
        cut = " (cut: capacity was taken back)" if market in answer.scaled else ""
        lines.append(
            f"  {market}: {quota.allocated_macc} macc, "
            f"{quota.opportunistic_macc} macc opportunistic{cut}"
        )
    lines += [f"  {source.value}: {verdict}" for source, verdict in answer.tried]
    return lines


def _default_file() -> Path:
    given = os.environ.get(FILE_VARIABLE)
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "walras" / "quota.json"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
