"""``walras replay``: stored cycles cleared again, the same or under another policy."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console

from walras.archive.progress import progress_bar
from walras.archive.recorded_cycle import ArchiveError, BrokenCycleError
from walras.archive_command import add_cycle_bounds, cycle_bounds, refuse
from walras.replay.display import replay_lines, study_tables
from walras.replay.policy import NAMED, SETTINGS, Policy, PolicyError, parse_policy
from walras.replay.replaying import Replay
from walras.replay.sources import cycles_of
from walras.replay.study import PolicyStudy
from walras.replay.summary import study_document

EXIT_SAME: Final = 0
EXIT_DIFFERENT: Final = 1
IMPACT_EVERY: Final = 60
PLAIN_COLUMNS: Final = 160
"""Width of tables that no terminal shows."""

DESCRIPTION: Final = """\
Clear stored cycles again, from the first key frame on, and compare all that was recorded bit for
bit: prices, certificate, purchases, allocations, leftovers, pool by pool and team by team.

SOURCE is kafka:HOST:PORT, or the directory of an archive (`walras archive`).

With --policy or --set every market is cleared under another policy too, jobs and bids as they were
recorded, and the report says what that does to prices, quotas and payments."""


def _epilog() -> str:
    named = [f"  {name:20} {', '.join(values) or 'as it was'}" for name, values in NAMED.items()]
    settings = [f"  {key:20} {words}" for key, words in SETTINGS.items()]
    return "\n".join(
        [
            "policies (--policy NAME):",
            *named,
            "",
            "settings (--set KEY=VALUE):",
            *settings,
            "",
            "exit codes: 0 all is the same; 1 differences; 2 bad input: nothing to replay, a cycle",
            "or a part of one is missing (without --skip-gaps), an unknown policy.",
        ]
    )


def add_replay_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``replay`` command."""
    parser = subparsers.add_parser(
        "replay",
        help="clear stored cycles again, the same or under another policy",
        description=DESCRIPTION,
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SOURCE", help="kafka:HOST:PORT or a directory")
    parser.add_argument(
        "--market", action="append", default=[], metavar="ID", help="only this one; repeatable"
    )
    add_cycle_bounds(parser)
    parser.add_argument(
        "--skip-gaps",
        action="store_true",
        help="go on from the next key frame behind what is missing",
    )
    parser.add_argument("--policy", metavar="NAME", help="run a named policy and report")
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="run with this setting and report; repeatable",
    )
    parser.add_argument(
        "--impact-every",
        type=_positive,
        default=IMPACT_EVERY,
        metavar="N",
        help="see each pool's impact on the price in every Nth cycle (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_replay)


def run_replay(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    try:
        return _replay(arguments)
    except BrokenCycleError as error:
        return refuse("replay", f"{error} (--skip-gaps goes on from the next key frame)")
    except (ArchiveError, PolicyError) as error:
        return refuse("replay", str(error))
    except OSError as error:
        return refuse("replay", f"{arguments.source}: {error.strerror or error}")


def _replay(arguments: argparse.Namespace) -> int:
    asked = arguments.policy is not None or bool(arguments.settings)
    policy, settings = parse_policy(arguments.policy, arguments.settings)
    within = cycle_bounds(arguments)
    with _study(policy if asked else None, arguments.impact_every) as study:
        replay = Replay(within, skip_gaps=arguments.skip_gaps, study=study)
        with progress_bar("replaying cycles") as progress:
            replay.run(cycles_of(arguments.source, arguments.market, within, progress))
        if strangers := sorted(set(arguments.market) - replay.markets.keys()):
            raise ArchiveError(f"{arguments.source}: no cycle of market {strangers[0]} is there")
        if not replay.replayed:
            raise ArchiveError(f"{arguments.source}: {_nothing(replay)}")
        document: dict[str, Any] = {"source": arguments.source, **_document(replay)}
        if study is not None:
            if unknown := sorted(policy.bid_ppm.keys() - study.pools):
                raise PolicyError(f"no replayed market has a pool {unknown[0]}")
            study.flush()
            document["policy"] = {
                "name": arguments.policy,
                "settings": settings,
                "impact_every": arguments.impact_every,
                **study_document(study.tables),
            }
    _show(arguments, replay, document)
    return EXIT_DIFFERENT if replay.difference_count else EXIT_SAME


@contextmanager
def _study(policy: Policy | None, impact_every: int) -> Iterator[PolicyStudy | None]:
    if policy is None:
        yield None
        return
    with TemporaryDirectory(prefix="walras-replay-") as directory:
        study = PolicyStudy(policy, Path(directory), impact_every)
        try:
            yield study
        finally:
            study.close()


def _nothing(replay: Replay) -> str:
    markets = replay.markets.values()
    if waiting := sum(market.before_key_frame + market.cut for market in markets):
        return f"nothing to replay: none of {waiting} cycles has a whole key frame before it"
    return "nothing to replay: no cleared cycle is there"


def _document(replay: Replay) -> dict[str, Any]:
    return {
        "replayed": replay.replayed,
        "markets": {
            name: {
                "replayed": market.replayed,
                "first_cycle": market.first_cycle,
                "last_cycle": market.last_cycle,
                "not_cleared": market.not_cleared,
                "before_key_frame": market.before_key_frame,
                "cut": market.cut,
            }
            for name, market in sorted(replay.markets.items())
        },
        "gaps": [
            {"market": gap.market, "cycle": gap.cycle, "reason": gap.reason} for gap in replay.gaps
        ],
        "difference_count": replay.difference_count,
        "differences": [difference._asdict() for difference in replay.found],
    }


def _show(arguments: argparse.Namespace, replay: Replay, document: dict[str, Any]) -> None:
    if arguments.json:
        print(json.dumps(document))
        return
    print("\n".join(replay_lines(replay)))
    if "policy" not in document:
        return
    policy = document["policy"]
    changed = ", ".join(f"{key}={value}" for key, value in policy["settings"].items())
    print(
        f"\nunder {changed or 'the recorded policy'}; in brackets the difference to what was "
        f"recorded; impact on the price: one cycle in {policy['impact_every']}"
    )
    console = Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS)
    for table in study_tables(policy):
        console.print(table)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
