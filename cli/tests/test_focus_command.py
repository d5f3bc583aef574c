"""`walras focus`: rows of corrections, credits, voids and rounding; the files; the command."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from cli.tests.focus_bench import (
    ALL,
    DAY_MS,
    EVERYTHING,
    REFERENCE,
    START_MS,
    Invoicing,
    latest,
    pool,
    random_days,
    rows_of,
)
from walras.billing_log import BillingLogError, Window
from walras.billing_log.testing import (
    HOUR_MS,
    UNITS,
    MemorySource,
    charge,
    correction,
    credit,
    invoice,
    invoice_line,
    prices,
)
from walras.focus.columns import ADDED, MANDATORY, NAMES, OWN, SCHEMA
from walras.focus.exporting import export
from walras.focus.rows import Row
from walras.focus.writing import FocusFiles
from walras_contracts.event import Event
from walras_contracts.invoices import (
    InvoiceAction,
    InvoiceRequested,
)
from walras_runtime.records import Barrier


def two_days(*late: Event, **first: Any) -> Invoicing:
    """One charge of 1 credit, its invoice issued, then what comes late."""
    invoicing = Invoicing()
    invoicing.step(START_MS, pool(), charge(START_MS, START_MS + HOUR_MS, 10**6, **first))
    invoicing.step(START_MS + DAY_MS + HOUR_MS)
    invoicing.step(START_MS + DAY_MS + 2 * HOUR_MS, *late)
    return invoicing


def test_a_correction_within_the_grace_changes_the_row_of_its_charge() -> None:
    invoicing = Invoicing()
    line = charge(START_MS, START_MS + HOUR_MS, 10**6)
    span = (START_MS + HOUR_MS // 2, START_MS + HOUR_MS)
    dearer = correction(line, *span, price_micro=3 * 10**6, previous_price_micro=10**6)
    invoicing.step(START_MS, pool(), line)
    invoicing.step(START_MS + DAY_MS + HOUR_MS, dearer)
    _, rows = rows_of(invoicing.source())
    assert [(r["ContractedUnitPrice"], r["BilledCost"]) for r in rows] == [
        (Decimal(1), Decimal("0.5")),
        (Decimal(3), Decimal("1.5")),
    ]
    assert {row["x_ChargeId"] for row in rows} == {line.charge_id}
    assert {row["ChargeClass"] for row in rows} == {None}


def test_a_late_price_after_the_issue_is_a_correction_that_names_its_charge() -> None:
    line = charge(START_MS, START_MS + HOUR_MS, 10**6)
    span = (line.start_ms, line.end_ms)
    cheaper = correction(line, *span, price_micro=0, previous_price_micro=10**6)
    _, rows = rows_of(two_days(cheaper).source())
    first, second = rows
    assert (second["ChargeClass"], second["x_CorrectsChargeId"]) == ("Correction", line.charge_id)
    assert (second["BilledCost"], second["x_CorrectionReason"]) == (Decimal(-1), "late_price")
    assert second["x_CorrectsInvoiceId"] == first["InvoiceId"] != second["InvoiceId"]
    assert second["x_OriginalPeriodStart"] == first["BillingPeriodStart"]
    assert second["ChargePeriodStart"] == first["ChargePeriodStart"]


def test_late_use_is_a_correction_of_the_invoice_and_a_credit_a_row_of_its_own() -> None:
    line = charge(START_MS, START_MS + HOUR_MS, 10**6)
    late = charge(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS, 5, seq=1)
    _, rows = rows_of(two_days(late, credit(line, -UNITS)).source())
    found = {row["x_CorrectionReason"]: row for row in rows if row["ChargeClass"]}
    assert found.keys() == {"late_usage", "drain_failed"}
    assert found["late_usage"]["x_CorrectsChargeId"] is None
    back = found["drain_failed"]
    assert (back["ChargeCategory"], back["x_CorrectsChargeId"]) == ("Credit", line.charge_id)
    assert (back["BilledCost"], back["x_DrainSession"]) == (Decimal("-0.000001"), "s-1")


def test_lines_of_a_voided_invoice_are_corrections_on_the_open_one() -> None:
    invoicing = two_days()
    (issued,) = [e for e in latest(invoicing) if e.team and e.start_ms == START_MS]
    ask = InvoiceRequested(invoice_id=issued.invoice_id, action=InvoiceAction.VOID, reason="x")
    invoicing.step(START_MS + DAY_MS + 3 * HOUR_MS, ask)
    _, (row,) = rows_of(invoicing.source())
    assert row["InvoiceId"] != issued.invoice_id == row["x_CorrectsInvoiceId"]
    assert (row["x_CorrectionReason"], row["BilledCost"]) == ("voided_invoice", Decimal(1))


def test_the_list_price_is_the_reference_price_and_use_is_cut_where_it_changes() -> None:
    told = (prices(START_MS, 4 * 10**6), prices(START_MS + HOUR_MS // 4, 8 * 10**6))
    _, rows = rows_of(two_days().source(*told))
    assert [(r["ListUnitPrice"], r["ListCost"], r["ContractedCost"]) for r in rows] == [
        (Decimal(4), Decimal(1), Decimal("0.25")),
        (Decimal(8), Decimal(6), Decimal("0.75")),
    ]
    _, (row,) = rows_of(two_days().source())
    assert (row["x_ReferencePrice"], row["ListUnitPrice"]) == (None, Decimal(1))


def test_what_whole_micro_credits_leave_of_the_exact_sum_is_an_adjustment() -> None:
    source = two_days(quantity_macc=1, tariff_ppm=333).source()
    _, (row, rounding) = rows_of(source)
    assert rounding["ChargeCategory"] == "Adjustment"
    assert row["BilledCost"] + rounding["BilledCost"] == 0
    assert rounding["ChargePeriodStart"] == rounding["BillingPeriodStart"]


def test_the_window_selects_invoices_by_the_start_of_their_period() -> None:
    invoicing = random_days(3)
    whole, _ = rows_of(invoicing.source())
    days = [START_MS + day * DAY_MS for day in range(9)]
    parts = [rows_of(invoicing.source(), Window(day, day + DAY_MS))[0] for day in days]
    assert sum(part.rows for part in parts) == whole.rows
    assert sum(part.payable_micro for part in parts) == whole.payable_micro
    only, rows = rows_of(invoicing.source(), team="u")
    assert 0 < only.rows < whole.rows
    assert {row["SubAccountId"] for row in rows} == {"u"}


def test_what_is_on_no_revision_yet_is_left_out_and_counted() -> None:
    invoicing = two_days()
    late = charge(START_MS + DAY_MS, START_MS + DAY_MS + 1, 10**6)
    invoicing.step(START_MS + DAY_MS + 2 * HOUR_MS + 1, late)
    behind = MemorySource([*invoicing.charges, *invoicing.invoices()[:-2]])
    exported, rows = rows_of(behind)
    assert (exported.waiting, exported.waiting_numerator) == (1, int(late.amount_numerator))
    assert len(rows) == 1


@pytest.mark.parametrize("without", ["a charge", "the barriers"])
def test_canary_charges_that_are_not_what_an_invoice_sums_up_are_refused(without: str) -> None:
    late = charge(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS, 5, seq=1)
    invoicing = two_days(late)
    charges = invoicing.charges
    if without == "a charge":
        charges = [e for e in charges if e is not late]
    else:
        charges = [e for e in charges if not isinstance(e, Barrier)]
    with pytest.raises(BillingLogError, match="its charge lines"):
        rows_of(MemorySource([*charges, *invoicing.invoices()]))


def test_canary_an_invoice_that_asks_for_more_than_rounding_makes_is_refused() -> None:
    line = charge(START_MS, START_MS + HOUR_MS, 10**6)
    asked = invoice(
        invoice_line("usage", 10**6 + 3, amount_numerator=line.amount_numerator),
        start_ms=START_MS,
        end_ms=START_MS + DAY_MS,
        due_ms=START_MS + DAY_MS,
        at_ms=START_MS + DAY_MS,
    )
    with pytest.raises(BillingLogError, match="not what its lines sum up to"):
        rows_of(MemorySource([line, asked]))


def written(tmp_path: Path, seed: int = 1) -> tuple[Sequence[Path], list[Row]]:
    files = FocusFiles(tmp_path)
    rows: list[Row] = []
    with files:

        def take(given: Sequence[Row]) -> None:
            rows.extend(given)
            files.write(given)

        export(random_days(seed).source(*REFERENCE), ALL, EVERYTHING, "Walras", take)
    return files.paths, rows


def test_parquet_and_csv_hold_the_same_rows(tmp_path: Path) -> None:
    (parquet, text), rows = written(tmp_path)
    table = pq.read_table(parquet)
    assert table.schema == SCHEMA
    assert table.to_pylist() == [{name: row[name] for name in NAMES} for row in rows]
    with text.open(encoding="utf-8", newline="") as opened:
        read = list(csv.DictReader(opened))
    assert [*read[0]] == [*NAMES]
    for row, found in zip(rows, read, strict=True):
        for name, value in row.items():
            assert (found[name] == "") == (value is None), name
            if isinstance(value, Decimal):
                assert "E" not in found[name]
                assert Decimal(found[name]) == value
            if isinstance(value, datetime):
                assert found[name].endswith("Z")
                assert datetime.fromisoformat(found[name]) == value


def test_sql_over_the_file_finds_the_payables_without_a_rounding_of_its_own(tmp_path: Path) -> None:
    (parquet, _), rows = written(tmp_path)
    found = duckdb.execute(
        "SELECT InvoiceId, SUM(BilledCost) FROM read_parquet(?) GROUP BY 1 ORDER BY 1",
        [str(parquet)],
    ).fetchall()
    with localcontext(prec=60):
        expected: dict[str, Decimal] = {}
        for row in rows:
            expected[row["InvoiceId"]] = (
                expected.get(row["InvoiceId"], Decimal(0)) + row["BilledCost"]
            )
    assert found == sorted(expected.items())


def test_an_export_that_fails_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    paths, _ = written(tmp_path)
    before = [path.read_bytes() for path in paths]
    files = FocusFiles(tmp_path)
    with pytest.raises(BillingLogError), files:
        raise BillingLogError("stop")
    assert [path.read_bytes() for path in paths] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)


def test_all_columns_of_the_format_are_there_and_our_own_say_so() -> None:
    assert len(MANDATORY) == 21
    assert [name for name, _ in OWN if not name.startswith("x_")] == []
    assert [name for name, _ in (*MANDATORY, *ADDED) if name.startswith("x_")] == []
    assert len(set(NAMES)) == len(NAMES)


def test_the_command_writes_both_files_and_tells_the_sums(tmp_path: Path) -> None:
    invoicing = random_days(2)
    log = tmp_path / "log.jsonl"
    lines = [
        json.dumps({"barrier": e.number, "market_time_ms": e.market_time_ms}).encode()
        if isinstance(e, Barrier)
        else e.payload()
        for e in [*invoicing.charges, *invoicing.invoices()]
    ]
    log.write_bytes(b"\n".join(lines))
    words = [sys.executable, "-m", "walras", "focus", "--file", str(log), "--out"]
    done = subprocess.run(
        [*words, str(tmp_path / "out"), "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [Path(name).exists() for name in found["files"]] == [True, True]
    assert found["payable_micro"] == rows_of(invoicing.source())[0].payable_micro
    paid = next(line for line in lines if b'"work_class":"market"' in line)
    log.write_bytes(b"\n".join(line for line in lines if line != paid))
    refused = subprocess.run(
        [*words, str(tmp_path / "other")], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("walras focus: ")
    assert [*(tmp_path / "other").iterdir()] == []
