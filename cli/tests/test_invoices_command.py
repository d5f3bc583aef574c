"""`walras invoices` and the pages that it writes: readable, self-contained, all texts escaped."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log import BillingLogError
from walras.billing_log.testing import (
    HOUR_MS,
    NOVEMBER_MS,
    OCTOBER_MS,
    UNITS,
    MemorySource,
    invoice,
    invoice_line,
)
from walras.invoices.html_page import html_page
from walras.invoices.latest import Selection, fold_invoices, read_invoices
from walras.invoices.local_time import local_text, period_file_name, period_name
from walras.invoices.sheet import columns_of, sheet_of
from walras.invoices.writing import file_name, write_invoice
from walras_contracts.accounts import BillingPeriod
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceRefused, InvoiceState

MICRO = 1_000_000
VOID_ELEMENTS = {"meta"}


def every_kind(**more: Any) -> InvoicePublished:
    return invoice(
        invoice_line("usage", 2_500_000, price_micro=2_500_000),
        invoice_line("correction", -1, period_start_ms=OCTOBER_MS - 30 * 24 * HOUR_MS),
        invoice_line("credit", -5 * MICRO),
        invoice_line("unbilled", 0, price_micro=0, work_class="opportunistic"),
        **more,
    )


class Outline(HTMLParser):
    """Checks that elements close in order; collects what is loaded and the words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [name for name, _ in attrs if name in {"src", "href", "srcset", "data"}]
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_the_page_shows_every_line_in_the_zone_of_the_pool_to_the_last_micro_credit() -> None:
    text = Outline(html_page(sheet_of(every_kind()))).text
    for words in (
        "Invoice: team t, October 2025",
        "ISSUED",
        "2025-10-01 00:00:00 +02:00",
        "2025-11-01 00:00:00 +01:00",
        "Use in this period",
        "Corrections of earlier periods",
        "September 2025",
        "-0.000001",
        "-5.000000",
        "Use that costs nothing",
        "-2.500001 credits",
        "1.000000",
    ):
        assert words in text, words


def test_what_the_lines_of_a_large_invoice_leave_out_is_a_dash() -> None:
    names = ("job", "market", "work_class", "price_micro", "period_start_ms")
    page = sheet_of(invoice(invoice_line("usage", 7, **dict.fromkeys(names))))
    ((row,),) = (section.rows for section in page.sections)
    shown = dict(zip(columns_of(page), row, strict=True))
    left_out = ("Job", "Market", "Class", "Period of use", "Price")
    assert [shown[name] for name in left_out] == ["-"] * 5
    assert shown["Amount"] == "0.000007"
    assert "0.000007" in Outline(html_page(page)).text


def test_the_page_loads_nothing() -> None:
    html = html_page(sheet_of(every_kind()))
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|<script|<link", html)
    assert Outline(html).loads == []


def test_canary_the_outline_sees_what_is_loaded_and_what_stays_open() -> None:
    assert Outline('<img src="x"></img>').loads == ["src"]
    with pytest.raises(AssertionError):
        Outline("<p><b>")


@given(st.text(max_size=60))
def test_whatever_a_reason_holds_it_stays_text(reason: str) -> None:
    html = html_page(sheet_of(every_kind(state="voided", reason=reason)))
    if "\r" not in reason and "\0" not in reason:
        assert reason in Outline(html).text
    assert html.count("<") == html_page(
        sheet_of(every_kind(state="voided", reason="x" if reason else ""))
    ).count("<")


def test_an_invoice_without_lines_still_makes_a_page() -> None:
    assert "No lines" in Outline(html_page(sheet_of(invoice()))).text


def test_a_held_draft_and_a_void_say_why() -> None:
    held = Outline(html_page(sheet_of(every_kind(state="draft", held=True, reason="asked")))).text
    assert "HELD DRAFT" in held
    assert "Held because\nasked" in held
    void = Outline(html_page(sheet_of(every_kind(state="voided", reason="twice")))).text
    assert "Voided because\ntwice" in void


def test_use_that_waits_or_came_too_late_is_told() -> None:
    macc_ms = str(2500 * HOUR_MS)
    sheet = sheet_of(every_kind(pending_macc_ms=macc_ms, rejected_late_macc_ms=macc_ms))
    notes = "\n".join(sheet.notes)
    assert "The price of 2.500000 accelerator-hours of this period is not known yet" in notes
    assert "2.500000 accelerator-hours were reported too late" in notes
    assert "not known yet" not in "\n".join(sheet_of(every_kind()).notes)


def test_a_pools_invoice_shows_teams_where_a_teams_shows_jobs() -> None:
    pool = every_kind(scope="pool", team=None)
    assert "Team" in Outline(html_page(sheet_of(pool))).text.split("Use in this period")[1]
    coarse = invoice(invoice_line("usage", 1, team=None, job=None), scope="pool", team=None)
    assert sheet_of(coarse).sections[0].rows[0][0] == "-", "left out, because there were too many"


@given(st.lists(st.integers(-(10**15), 10**15), max_size=6))
def test_the_sums_of_the_sections_sum_up_to_what_is_payable(amounts: list[int]) -> None:
    kinds = ("usage", "correction", "credit")
    sheet = sheet_of(
        invoice(*(invoice_line(kinds[at % 3], micro) for at, micro in enumerate(amounts)))
    )
    sums = [int(each.sum_text.replace(",", "").replace(".", "")) for each in sheet.sections]
    assert sum(sums) == sum(amounts)
    assert int(sheet.payable.split()[0].replace(",", "").replace(".", "")) == sum(amounts)


def test_the_exact_sum_is_shown_where_it_differs_from_what_is_payable() -> None:
    line = invoice_line("usage", 1, amount_numerator=str(UNITS + UNITS // 3))
    assert "is 0.000001333333 credits" in sheet_of(invoice(line)).notes[0]


def test_the_latest_revision_of_an_id_is_the_invoice() -> None:
    first, second = every_kind(state="draft"), every_kind(revision=1)
    other = every_kind(invoice_id="f" * 32, pool="a")
    for order in ((first, second, other), (second, other, first)):
        assert fold_invoices(order).selected(Selection()) == [other, second]


def test_invoices_are_selected_by_pool_team_state_and_scope() -> None:
    pool = every_kind(scope="pool", team=None, invoice_id="a" * 32)
    team = every_kind(state="draft")
    found = read_invoices(MemorySource([team, pool]))
    assert found.selected(Selection()) == [pool, team], "a pool's own is before those of its teams"
    assert found.selected(Selection(team="t")) == [team]
    assert found.selected(Selection(scope="pool")) == [pool]
    assert found.selected(Selection(state=InvoiceState.ISSUED.value)) == [pool]
    assert found.selected(Selection(pool="other")) == []


def test_an_invoice_is_named_by_a_beginning_that_only_it_has() -> None:
    found = fold_invoices(
        [every_kind(invoice_id="ab" * 16), every_kind(invoice_id="abab" * 7 + "c" * 4)]
    )
    assert found.named("abab" * 7 + "a").invoice_id == "ab" * 16
    with pytest.raises(BillingLogError, match=r"may be ababab.* or ababab"):
        found.named("abababab")
    with pytest.raises(BillingLogError, match="give at least 8 digits"):
        found.named("ab")
    with pytest.raises(BillingLogError, match="no invoice 12345678 is there"):
        found.named("12345678")


def test_the_hour_that_a_zone_lives_twice_has_two_names() -> None:
    back_ms = 1_761_440_400_000 - HOUR_MS
    names = {
        period_name(BillingPeriod.HOUR, "Europe/Budapest", back_ms + n * HOUR_MS) for n in (0, 1)
    }
    assert names == {"2025-10-26 02:00 +0200", "2025-10-26 02:00 +0100"}
    files = {
        period_file_name(BillingPeriod.HOUR, "Europe/Budapest", back_ms + n * HOUR_MS)
        for n in (0, 1)
    }
    assert len(files) == 2
    assert period_name(BillingPeriod.DAY, "Europe/Budapest", OCTOBER_MS) == "2025-10-01"
    assert local_text("Asia/Kathmandu", NOVEMBER_MS) == "2025-11-01 04:45:00 +05:45"


def test_files_are_written_below_the_pool_and_json_reads_back(tmp_path: Path) -> None:
    given_one = every_kind()
    paths = write_invoice(given_one, tmp_path, ("json", "html"))
    assert [path.parent for path in paths] == [tmp_path / "p"] * 2
    assert [path.name for path in paths] == [
        f"{file_name(given_one)}.json",
        f"{file_name(given_one)}.html",
    ]
    assert InvoicePublished.model_validate_json(paths[0].read_bytes()) == given_one
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == sorted(
        path.name for path in paths
    )


def walras(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "walras", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.jsonl"
    issued = every_kind()
    refused = InvoiceRefused(
        invoice_id=issued.invoice_id,
        action=InvoiceAction.HOLD,
        code="issued",
        reason="it can only be voided",
        at_ms=0,
    )
    events = (issued, refused, every_kind(invoice_id="f" * 32, state="draft", team="u"))
    file.write_bytes(b"".join(event.payload() + b"\n" for event in events))
    return str(file)


def test_the_command_lists_invoices_and_what_was_refused(log: str) -> None:
    done = walras("invoices", "--file", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hold was refused: it can only be voided [issued]" in done.stdout
    assert done.stdout.count("-2.500001") == 2
    asked = walras("invoices", "--file", log, "--state", "issued", "--json")
    found = json.loads(asked.stdout)
    assert [each["state"] for each in found["invoices"]] == ["issued"]
    assert [each["code"] for each in found["refused"]] == ["issued"]
    none = walras("invoices", "--file", log, "--pool", "x")
    assert (none.returncode, none.stdout) == (0, "no invoice of those asked for is there\n")


def test_the_command_writes_the_format_that_is_asked_for(log: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = walras("invoices", "--file", log, "--out", str(out), "--format", "html", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    files = json.loads(done.stdout)["files"]
    assert sorted(files) == sorted(str(path) for path in out.rglob("*.*"))
    assert [Path(name).suffix for name in files] == [".html", ".html"]


def test_a_folder_that_cannot_be_written_is_refused(log: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file", "utf-8")
    done = walras("invoices", "--file", log, "--out", str(tmp_path / "out"), "--format", "html")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"walras invoices: {tmp_path / 'out'}")


def test_an_invoice_is_not_asked_for_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)
    done = walras("invoice", "void", "f" * 32)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "walras invoice: name a broker with --bootstrap\n"
    long = walras("invoice", "void", "f" * 32, "--bootstrap", "x:1", "--reason", "y" * 501)
    assert long.stderr == "walras invoice: --reason is longer than 500 characters\n"
