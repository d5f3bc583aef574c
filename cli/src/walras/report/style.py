"""The style sheet of the report: light, one accent, system fonts."""

CSS = """
:root{--ink:#1d2733;--muted:#5b6875;--rule:#e3e8ed;--accent:#0b5c8f}
*{box-sizing:border-box}
body{margin:0;background:#f4f6f8;color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1160px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:27px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:0 0 6px}
p{margin:0 0 10px}.sub{color:var(--muted)}
section{background:#fff;border:1px solid var(--rule);border-radius:10px;
padding:18px 20px;margin-top:18px}
section>p:first-of-type{color:var(--muted);font-size:13.5px;max-width:120ch}
.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;margin-top:18px}
.card{background:#fff;border:1px solid var(--rule);border-radius:10px;padding:12px 14px}
.card b{display:block;font-size:22px;font-weight:650;font-variant-numeric:tabular-nums}
.card span{display:block;color:var(--muted);font-size:12.5px;line-height:1.35}
.card .name{font-size:12.5px;color:var(--accent);font-weight:600}
.grid3{display:grid;grid-template-columns:repeat(3,1fr);gap:18px}
.grid2{display:grid;grid-template-columns:repeat(2,1fr);gap:26px}
svg{display:block;width:100%;height:auto}
svg .axis{font-size:11px;fill:var(--muted);font-variant-numeric:tabular-nums}
svg .name{fill:var(--ink)}svg .value{font-size:9.5px;
paint-order:stroke;stroke:#fff;stroke-width:3px}
.grid3 .sub{font-size:12.5px;margin:2px 0 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:8px 0 4px;
font-size:12.5px;color:var(--muted)}
.legend i{display:inline-block;width:14px;height:4px;border-radius:2px;
margin-right:6px;vertical-align:middle}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:right;font-weight:600;color:var(--muted);border-bottom:1px solid #c7d0d8;
padding:5px 8px;vertical-align:bottom;line-height:1.25}
td{text-align:right;padding:4px 8px;border-bottom:1px solid var(--rule);white-space:nowrap}
th.left,td.left{text-align:left}
tr.first td{border-top:1px solid #c7d0d8}
code{font:12.5px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;word-break:break-all}
ul{margin:4px 0 0;padding-left:18px;font-size:13.5px}li{margin:2px 0}
dl{margin:0;display:grid;grid-template-columns:250px 1fr;gap:6px 14px;font-size:13.5px}
dt{color:var(--muted)}dd{margin:0}
@media(max-width:820px){.cards{grid-template-columns:repeat(2,1fr)}
.grid3,.grid2{grid-template-columns:1fr}dl{grid-template-columns:1fr}}
@media print{body{background:#fff}section,.card{break-inside:avoid}}
"""
