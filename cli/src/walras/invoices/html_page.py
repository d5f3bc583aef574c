"""An invoice as one HTML page that loads nothing and prints well."""

from html import escape

from walras.invoices.sheet import NUMBERS, Section, Sheet, columns_of

CSS = """
@page{size:A4 landscape;margin:14mm}
*{box-sizing:border-box}
body{margin:0;background:#f4f6f8;color:#1d2733;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:24px auto;padding:28px 32px;background:#fff;border:1px solid #e3e8ed;
border-radius:8px}
header{display:flex;justify-content:space-between;align-items:flex-start;gap:20px}
h1{font-size:24px;margin:0 0 12px}h2{font-size:15px;margin:22px 0 4px}
.state{border:2px solid #5b6875;color:#5b6875;border-radius:6px;padding:3px 12px;font-weight:700;
letter-spacing:.08em;white-space:nowrap}
.issued{border-color:#17703a;color:#17703a}.voided{border-color:#b3261e;color:#b3261e}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:0}
dt{color:#5b6875}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:12.5px;font-variant-numeric:tabular-nums}
th{color:#5b6875;font-weight:600;text-align:left;border-bottom:1px solid #c7d0d8;padding:4px 7px}
td{padding:3px 7px;border-bottom:1px solid #e3e8ed;white-space:nowrap}
.number{text-align:right}tfoot td{font-weight:650;border-top:1px solid #c7d0d8;border-bottom:0}
.payable{display:flex;justify-content:flex-end;gap:28px;font-size:18px;font-weight:700;
border-top:2px solid #1d2733;margin-top:22px;padding-top:8px}
.notes{color:#5b6875;font-size:12.5px;margin-top:18px}.notes p{margin:0 0 4px;max-width:110ch}
footer{color:#5b6875;font-size:11.5px;margin-top:18px}
@media print{body{background:#fff}main{border:0;margin:0;padding:0;max-width:none}
thead{display:table-header-group}tr{break-inside:avoid}.scroll{overflow:visible}}
"""


def html_page(sheet: Sheet) -> str:
    """Return the page; whatever the texts hold, they stay texts."""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in sheet.facts)
    notes = "".join(f"<p>{escape(note)}</p>" for note in sheet.notes)
    sections = "".join(_section(section, sheet) for section in sheet.sections)
    state = escape(sheet.state)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(sheet.title)}</title><style>{CSS}</style></head><body><main>"
        f"<header><h1>{escape(sheet.title)}</h1>"
        f'<span class="state {state.lower().split(" ")[-1]}">{state}</span></header>'
        f"<dl>{facts}</dl>{sections or '<h2>No lines</h2>'}"
        f'<div class="payable"><span>To pay</span><span>{escape(sheet.payable)}</span></div>'
        f'<div class="notes">{notes}</div><footer>{escape(sheet.footer)}</footer>'
        "</main></body></html>\n"
    )


def _section(section: Section, sheet: Sheet) -> str:
    columns = columns_of(sheet)
    sides = [' class="number"' if name in NUMBERS else "" for name in columns]
    heads = "".join(
        f"<th{side}>{escape(name)}</th>" for side, name in zip(sides, columns, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td{side}>{escape(text)}</td>" for side, text in zip(sides, row, strict=True))
        + "</tr>"
        for row in section.rows
    )
    foot = (
        f'<tr><td colspan="{len(columns) - 1}">Sum</td>'
        f'<td class="number">{escape(section.sum_text)}</td></tr>'
    )
    return (
        f'<h2>{escape(section.heading)}</h2><div class="scroll"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody><tfoot>{foot}</tfoot></table></div>"
    )
