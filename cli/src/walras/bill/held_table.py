"""How held time was used, for the terminal."""

from rich.table import Table

from walras.bill.team_bill import TeamBill
from walras.bill.time_held import PARTS, TimeHeld
from walras.billing_log.amounts import accelerator_hours_text, share_text

NOT_KNOWN = "how held time was used is not known: no usage.settled of it is there"


def held_lines(bill: TeamBill) -> list[str]:
    """Return in words how the time of all jobs was used."""
    total = bill.total().time_held
    if total is None:
        return [f"  {NOT_KNOWN}"]
    rows = [("held", accelerator_hours_text(total.held_macc_ms), "")]
    rows += [
        (f"of it {part}", accelerator_hours_text(total.part_macc_ms(part)), _share(total, part))
        for part in PARTS
    ]
    width = max(len(hours) for _, hours, _ in rows)
    return [
        f"  {name:<28} {hours:>{width}} accelerator-hours{share}" for name, hours, share in rows
    ]


def held_table(bill: TeamBill) -> Table:
    """Return one row a job and market whose time was settled, the dearest first."""
    table = Table(
        title="how held time was used, in whole five minutes that are settled: accelerator-hours",
        title_justify="left",
        title_style="",
    )
    for word in ("job", "market"):
        table.add_column(word)
    for number in ("held h", *(name for part in PARTS for name in (f"{part} h", "%"))):
        table.add_column(number, justify="right")
    for job, market, figures in bill.ordered():
        time_held = figures.time_held
        if time_held is not None:
            table.add_row(job, market, *_cells(time_held))
    return table


def _cells(time_held: TimeHeld) -> list[str]:
    cells = [accelerator_hours_text(time_held.held_macc_ms)]
    for part in PARTS:
        macc_ms = time_held.part_macc_ms(part)
        share = share_text(macc_ms, time_held.held_macc_ms).removesuffix(" %")
        cells += [accelerator_hours_text(macc_ms), share]
    return cells


def _share(time_held: TimeHeld, part: str) -> str:
    share = share_text(time_held.part_macc_ms(part), time_held.held_macc_ms)
    return f", {share}" if time_held.held_macc_ms else ""
