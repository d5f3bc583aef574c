"""Invoices as PDF: what is on the page is read back from it."""

import io
from typing import Any

import pytest
from pypdf import PdfReader

from walras.billing_log.testing import invoice, invoice_line
from walras.invoices.pdf_page import pdf_page, printable
from walras.invoices.sheet import sheet_of
from walras_contracts.invoices import InvoicePublished


def read(given: InvoicePublished) -> PdfReader:
    return PdfReader(io.BytesIO(pdf_page(sheet_of(given))))


def texts(given: InvoicePublished) -> list[str]:
    """Text of each page."""
    return [page.extract_text() for page in read(given).pages]


def many(count: int, **more: Any) -> InvoicePublished:
    lines = [invoice_line("usage", at + 1, job=f"job-{at}", price_micro=at) for at in range(count)]
    return invoice(*lines, **more)


def test_the_page_says_what_the_sheet_says() -> None:
    given = invoice(
        invoice_line("usage", 2_500_000, price_micro=2_500_000),
        invoice_line("credit", -7),
        state="voided",
        reason="asked <twice> & more",
    )
    sheet = sheet_of(given)
    (text,) = texts(given)
    expected = [sheet.title, sheet.state, sheet.payable, *sheet.notes]
    expected += [word for fact in sheet.facts for word in fact]
    expected += [cell for section in sheet.sections for row in section.rows for cell in row]
    words = " ".join(text.split())
    for each in expected:
        assert " ".join(each.split()) in words, each


@pytest.mark.parametrize("count", [1, 40, 1200])
def test_every_line_is_on_some_page_under_a_head_and_pages_are_numbered(count: int) -> None:
    given = many(count)
    pages = texts(given)
    found = "\n".join(pages)
    for at in range(count):
        assert f"job-{at}\n" in found or f"job-{at} " in found, at
    for number, page in enumerate(pages, start=1):
        assert f"{given.invoice_id} · revision 0 · page {number} of {len(pages)}" in page
        if "job-" in page:
            assert "Accelerator-hours" in page
    assert len(pages) > count // 60


def test_a_name_that_is_too_long_for_its_column_goes_on_below_and_is_not_cut() -> None:
    name = "train-" + "x" * 50 + "-seven"
    (text,) = texts(invoice(invoice_line("usage", 1, job=name)))
    first, rest = name[:10], name[-8:]
    assert first in text
    assert rest in text
    assert "..." not in text


def test_a_title_that_is_too_long_goes_on_below_instead_of_through_the_state() -> None:
    given = invoice(invoice_line("usage", 1), team="team-" + "w" * 58)
    (text,) = texts(given)
    (first,) = [line for line in text.splitlines() if line.startswith("Invoice:")]
    assert "October 2025" not in first
    assert "".join(sheet_of(given).title.split()) in "".join(text.split())


def test_letters_that_the_fonts_lack_are_written_as_code_points() -> None:
    assert printable("Zürich 中 ű") == "Zürich \\u4e2d \\u0171"
    (text,) = texts(invoice(state="voided", reason="中"))
    assert "\\u4e2d" in text


def test_equal_invoices_give_equal_bytes() -> None:
    sheet = sheet_of(many(50))
    assert pdf_page(sheet) == pdf_page(sheet)
    assert pdf_page(sheet) != pdf_page(sheet_of(many(51)))


def test_the_document_has_a_title_and_the_date_of_its_revision() -> None:
    information = read(many(1)).metadata
    assert information is not None
    assert information.title == "Invoice: team t, October 2025"
    assert str(information.creation_date) == "2025-11-01 00:00:00+00:00"
