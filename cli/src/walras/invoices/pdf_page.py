"""An invoice as PDF: A4, one table a kind of line, its head repeated on every page."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from fpdf import FPDF
from fpdf.enums import XPos, YPos

from walras.invoices.sheet import NUMBERS, Section, Sheet, columns_of

FONT: Final = "helvetica"
MARGIN_MM: Final = 14
ROW_MM: Final = 4.6
STATE_MM: Final = 50
TABLE_POINTS: Final = 7
GREY: Final = 110
STATE_COLORS: Final = {"ISSUED": (23, 112, 58), "VOIDED": (179, 38, 30)}
WIDTHS_MM: Final = (34, 26, 21, 24, 38, 38, 24, 26, 14, 24)
"""Of the columns; together the width of the page within its margins."""


class _Page(FPDF):
    """Pages that end with the invoice's id and their number."""

    def __init__(self, footer_text: str) -> None:
        super().__init__(orientation="landscape", format="A4")
        self._footer_text = footer_text
        self.set_margin(MARGIN_MM)
        self.set_auto_page_break(True, margin=MARGIN_MM + 4)

    def footer(self) -> None:
        """Draw the foot of a page; the library calls it."""
        self.set_y(-MARGIN_MM)
        self.set_font(FONT, size=TABLE_POINTS)
        self.set_text_color(GREY)
        self.cell(text=f"{self._footer_text} · page {self.page_no()} of {{nb}}")


def pdf_page(sheet: Sheet) -> bytes:
    """Return the document; equal invoices give equal bytes.

    Letters that the standard fonts of PDF lack are written as their code points.
    """
    page = _Page(printable(sheet.footer))
    page.set_creation_date(datetime.fromtimestamp(sheet.made_ms // 1000, UTC))
    page.set_title(printable(sheet.title))
    page.set_lang("en")
    page.add_page()
    _head(page, sheet)
    for section in sheet.sections:
        _section(page, section, columns_of(sheet))
    _foot(page, sheet)
    return bytes(page.output())


def printable(text: str) -> str:
    """Return a text in letters that the standard fonts have."""
    return text.encode("latin-1", "backslashreplace").decode("latin-1")


def _head(page: _Page, sheet: Sheet) -> None:
    page.set_font(FONT, "B", 17)
    top_mm = page.get_y()
    page.multi_cell(
        w=page.epw - STATE_MM - 6,
        h=9,
        text=printable(sheet.title),
        align="L",
        new_x=XPos.LMARGIN,
        new_y=YPos.NEXT,
    )
    bottom_mm = page.get_y()
    page.set_xy(page.l_margin + page.epw - STATE_MM, top_mm)
    page.set_font(FONT, "B", 12)
    page.set_text_color(*STATE_COLORS.get(sheet.state, (GREY, GREY, GREY)))
    page.set_draw_color(*STATE_COLORS.get(sheet.state, (GREY, GREY, GREY)))
    page.cell(w=STATE_MM, h=8, text=sheet.state, border=1, align="C")
    page.set_xy(page.l_margin, bottom_mm)
    page.set_draw_color(200)
    page.ln(4)
    for name, text in sheet.facts:
        page.set_text_color(GREY)
        page.set_font(FONT, size=9)
        page.cell(w=36, h=5, text=name)
        page.set_text_color(0)
        page.multi_cell(
            w=page.epw - 36, h=5, text=printable(text), new_x=XPos.LMARGIN, new_y=YPos.NEXT
        )


def _section(page: _Page, section: Section, columns: Sequence[str]) -> None:
    if page.will_page_break(8 + 3 * ROW_MM):
        page.add_page()
    page.ln(4)
    page.set_text_color(0)
    page.set_font(FONT, "B", 10)
    page.cell(h=6, text=section.heading, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    _column_heads(page, columns)
    for row in section.rows:
        cells = _cells(page, row)
        if page.will_page_break(ROW_MM * _height(cells)):
            page.add_page()
            _column_heads(page, columns)
        _row(page, cells, columns)
    if page.will_page_break(ROW_MM):
        page.add_page()
    page.set_font(FONT, "B", TABLE_POINTS)
    page.cell(w=sum(WIDTHS_MM[:-1]), h=ROW_MM, text="Sum", border="T")
    page.cell(
        w=WIDTHS_MM[-1],
        h=ROW_MM,
        text=section.sum_text,
        border="T",
        align="R",
        new_x=XPos.LMARGIN,
        new_y=YPos.NEXT,
    )


def _column_heads(page: _Page, columns: Sequence[str]) -> None:
    page.set_font(FONT, "B", TABLE_POINTS)
    page.set_text_color(GREY)
    _row(page, _cells(page, columns), columns)
    page.set_font(FONT, size=TABLE_POINTS)
    page.set_text_color(0)


def _cells(page: _Page, row: Sequence[str]) -> list[list[str]]:
    """Return the lines of each cell: what is wider than its column goes on below, never lost."""
    return [
        _wrapped(page, printable(text), width - 2)
        for text, width in zip(row, WIDTHS_MM, strict=True)
    ]


def _wrapped(page: _Page, text: str, width_mm: float) -> list[str]:
    if page.get_string_width(text) <= width_mm:
        return [text]
    found = [""]
    for letter in text:
        if page.get_string_width(found[-1] + letter) > width_mm:
            found.append("")
        found[-1] += letter
    return found


def _height(cells: Sequence[Sequence[str]]) -> int:
    return max(len(lines) for lines in cells)


def _row(page: _Page, cells: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    height = _height(cells)
    for number in range(height):
        border = "B" if number == height - 1 else ""
        for width, name, lines in zip(WIDTHS_MM, columns, cells, strict=True):
            text = lines[number] if number < len(lines) else ""
            side = "R" if name in NUMBERS else "L"
            page.cell(w=width, h=ROW_MM, text=text, border=border, align=side)
        page.ln(ROW_MM)


def _foot(page: _Page, sheet: Sheet) -> None:
    if page.will_page_break(14 + 5 * len(sheet.notes)):
        page.add_page()
    page.ln(5)
    page.set_text_color(0)
    page.set_font(FONT, "B", 13)
    page.cell(w=page.epw - 80, h=8, text="To pay", border="T")
    page.cell(
        w=80, h=8, text=sheet.payable, border="T", align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT
    )
    page.ln(2)
    page.set_text_color(GREY)
    page.set_font(FONT, size=8)
    for note in sheet.notes:
        page.multi_cell(w=0, h=4.2, text=printable(note), new_x=XPos.LMARGIN, new_y=YPos.NEXT)
