"""What a replay found, for people: lines, and tables of a policy study."""

from collections.abc import Sequence
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from walras.replay.replaying import Replay

DIFFERENCES_SHOWN: Final = 20
TEAMS_SHOWN: Final = 20
NONE: Final = "–"
Row = dict[str, Any]


def replay_lines(replay: Replay) -> list[str]:
    """Return what was replayed, what differs and what was missing."""
    lines = []
    for name, market in sorted(replay.markets.items()):
        words = f"{name}: {market.replayed} cycles replayed"
        if market.replayed:
            words += f" ({market.first_cycle} to {market.last_cycle})"
        if market.not_cleared:
            words += f", {market.not_cleared} not cleared"
        if market.before_key_frame:
            words += f", {market.before_key_frame} without a key frame before them"
        if market.cut:
            words += f", {market.cut} cut at the beginning"
        lines.append(words)
    lines += [f"skipped: {gap}" for gap in replay.gaps]
    lines += [difference.line() for difference in replay.found[:DIFFERENCES_SHOWN]]
    if not replay.difference_count:
        return [*lines, "all is the same, bit for bit"]
    if len(replay.found) > DIFFERENCES_SHOWN:
        lines.append(f"… (--json shows {len(replay.found)})")
    lines.append(f"{replay.difference_count} differences")
    return lines


def study_tables(document: dict[str, list[Row]]) -> list[Table]:
    """Return the tables of a study: markets, pools, and the teams that pay most differently."""
    markets = _table(
        "Markets: µcr per accelerator-hour, µcr, ppm",
        ("market", "cycles", "reference price", "payments", "f max", "max/min share"),
        [
            (
                row["market"],
                str(row["cycles"]),
                _change(row["reference_price_micro"]),
                _change(row["payment_micro"]),
                _pair(row["f_max_ppm"]),
                _pair(row["max_min_ppm"]),
            )
            for row in document["markets"]
        ],
    )
    pools = _table(
        "Pools: price and impact in µcr per accelerator-hour, quota in macc, payments in µcr",
        ("market", "pool", "price", "quota", "payments", "impact on the price", "samples"),
        [
            (
                *(row["market"], row["pool"]),
                *(_change(row[name]) for name in ("price_micro", "allocated_macc")),
                _change(row["payment_micro"]),
                _pair(row["impact_micro"]),
                str(row["impact_samples"]),
            )
            for row in document["pools"]
        ],
    )
    return [markets, pools, _teams(document["teams"])]


def _teams(rows: Sequence[Row]) -> Table:
    by_change = sorted(
        rows, key=lambda row: (-abs(row["payment_micro"]["difference"]), row["market"], row["team"])
    )
    shown = by_change[:TEAMS_SHOWN]
    return _table(
        f"Teams: the {len(shown)} of {len(rows)} whose payment changes most",
        ("market", "pool", "team", "price", "quota", "payments", "f", "share"),
        [
            (
                *(row["market"], row["pool"], row["team"]),
                *(_change(row[name]) for name in ("price_micro", "allocated_macc")),
                _change(row["payment_micro"]),
                *(_pair(row[name]) for name in ("f_ppm", "share_ppm")),
            )
            for row in shown
        ],
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for name in columns:
        text = name in ("market", "pool", "team")
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _number(value: int | None, sign: str = "") -> str:
    return NONE if value is None else f"{value:{sign},}"


def _change(figures: Row) -> str:
    return f"{_number(figures['policy'])} ({_number(figures['difference'], '+')})"


def _pair(figures: Row) -> str:
    return f"{_number(figures['base'])} → {_number(figures['policy'])}"
