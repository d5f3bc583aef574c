"""The page: every section, nothing loaded, everything escaped."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from walras.report import build_report, write_report
from walras.report.page import page
from walras.report.testing import CONTEXT, Log, tiny_log


@pytest.fixture
def report() -> dict[str, Any]:
    return build_report(CONTEXT, tiny_log())


SECTIONS = (
    "prices",
    "occupancy",
    "queue",
    "waits",
    "fairness",
    "placement",
    "money",
    "teams",
    "digests",
    "log",
    "scenario",
    "definitions",
)
VOID = {"meta"}


class _Outline(HTMLParser):
    """Checks that elements close in order; collects ids and attributes that load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.loads += [name for name, _ in attrs if name in {"src", "href", "srcset", "data"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _outline(html: str) -> _Outline:
    outline = _Outline()
    outline.feed(html)
    outline.close()
    return outline


def test_the_page_holds_every_section_and_closes_every_element(report: dict[str, Any]) -> None:
    outline = _outline(page(report))
    assert tuple(outline.ids) == SECTIONS
    assert outline.open == []


def test_canary_the_outline_notices_open_elements_and_what_is_loaded() -> None:
    with pytest.raises(AssertionError):
        _outline("<p><b>never closed</p>")
    assert _outline('<img src="x.png">').loads == ["src"]
    assert _outline('<p id="a"><i>').open == ["p", "i"]


def test_the_page_loads_nothing(report: dict[str, Any]) -> None:
    html = page(report)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|<script|<link", html)
    assert _outline(html).loads == []


def test_the_page_shows_the_figures_and_the_digests(report: dict[str, Any]) -> None:
    text = _outline(page(report)).text
    for words in ("44.4 %", "7.5 %", "1.09", "stopped early", "40 ms", "2.07", "seed 5"):
        assert words in text, words
    for digest in report["digests"].values():
        assert digest in text
    for definition in report["definitions"].values():
        assert definition in text


def test_what_comes_from_outside_is_escaped(report: dict[str, Any]) -> None:
    html = page(report)
    assert "<market>" not in html
    assert "A tiny &lt;market&gt; &amp; its log" in html
    assert "limits & <teams>" in _outline(html).text


def test_no_drawn_number_is_broken(report: dict[str, Any]) -> None:
    html = page(report)
    assert not re.search(r'="[^"]*(nan|inf|None)[^"]*"', html)
    assert html.count("<svg") == 1 + 1 + 1 + 2 + 2 + 2 + 1 + len(report["money"]["teams"]) == 12


def test_a_log_in_which_nothing_happened_still_makes_a_page() -> None:
    log: Log = {topic: [] for topic in tiny_log()}
    log["cycles"] = tiny_log()["cycles"][:2]
    empty = build_report(CONTEXT, log)
    assert empty["occupancy"]["occupancy_ppm"] is None
    assert empty["fairness"]["max_min_share_ratio_ppm"] is None
    assert tuple(_outline(page(empty)).ids) == SECTIONS


def test_both_files_are_written_and_the_json_reads_back(
    tmp_path: Path, report: dict[str, Any]
) -> None:
    json_path, html_path = write_report(tmp_path / "out" / "demo", report)
    assert json.loads(json_path.read_text("utf-8")) == report
    assert html_path.read_text("utf-8") == page(report)
    assert sorted(path.name for path in json_path.parent.iterdir()) == [
        "report.html",
        "report.json",
    ]
