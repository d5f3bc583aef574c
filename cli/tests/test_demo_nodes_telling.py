"""What `walras demo-nodes` tells and draws."""

import io
from dataclasses import replace
from xml.etree import ElementTree

from rich.console import Console

from cli.tests.demo_nodes_story import PRICES, drained, price, story
from walras.demo_nodes.checking import check
from walras.demo_nodes.narrating import EventWords, Narrator, facts_table, price_text
from walras.demo_nodes.timeline import timeline_svg
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.work import DrainState

SVG = "{http://www.w3.org/2000/svg}"


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_prices_and_states_are_told_when_they_change_and_only_then() -> None:
    words = EventWords()
    lines = [
        words.line(price(n, 0, micro)) for n, micro in enumerate((200_000, 200_000, 2_999_813))
    ]
    assert lines == [
        "the price is 0.20 cr/acc·h, was –",
        None,
        "the price is 3.00 cr/acc·h, was 0.20",
    ]
    assert words.price_micro == 2_999_813
    told = [words.line(each) for each in story().drains]
    assert told[0] == "vision/pretrain is warned (0.00 s after the warning)"
    assert told[2] is None
    assert told[3] == "vision/pretrain has saved all (1.70 s after the warning)"
    assert words.line(drained(DrainState.FAILED, 13_000)) == (
        "vision/pretrain could not be drained (2.70 s after the warning)"
    )


def test_leases_and_vacates_are_told_and_heartbeats_are_not() -> None:
    words, played = EventWords(), story()
    assert words.line(played.vacates[0]) == "vision/pretrain has to leave: price above limit"
    told = [words.line(status) for status in played.statuses[:3]]
    assert told == [
        None,
        "vision/pretrain runs on node-1",
        "vision/pretrain is gone from node-1: vacated",
    ]
    beat = NodeHealthReported(node="node-1", unhealthy_devices=(), reported_ms=1)
    assert words.line(beat) is None


def test_outside_a_terminal_the_story_is_plain_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=80)
    with Narrator(console, story().scenario, lambda: 3) as narrator:
        narrator.happened(story().vacates[0])
        narrator.look()
        with narrator.aside():
            pass
        narrator.say("[bold]as it is")
    lines = printed(console).splitlines()
    assert [line[10:] for line in lines] == [
        "vision/pretrain has to leave: price above limit",
        "[bold]as it is",
    ]


def test_the_table_names_every_fact_and_what_is_wrong_with_one() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(facts_table(check(replace(story(), digest_in_one_go="zz"))))
    text = printed(console)
    assert "its weights are not those of a run in one go" in text
    assert text.count(" yes ") == 6
    assert text.count(" NO ") == 1
    assert "spike 3.00" in text
    assert "spike ms" not in text


def test_prices_are_rounded_for_people_to_two_decimals() -> None:
    assert [price_text(micro) for micro in (None, 0, 4_999, 5_000, 2_999_813)] == [
        "–",
        "0.00",
        "0.00",
        "0.01",
        "3.00",
    ]


def test_the_picture_shows_every_holding_the_drain_every_price_and_what_happened() -> None:
    root = ElementTree.fromstring(timeline_svg(story()))
    titles = [e.text or "" for e in root.iter(f"{SVG}title")]
    assert len(titles) == 5 * 8
    assert "vision/pretrain, node-2 device 7, pretrain.2" in titles
    texts = [e.text or "" for e in root.iter(f"{SVG}text")]
    for wanted in ("node-1", "search/launch-2", "limit of vision/pretrain: 1.00", "3.00", "0.20"):
        assert wanted in texts
    assert any(text.startswith("warned 8.2 s") for text in texts)
    assert any(text.startswith("goes on, on node-2 24.3 s") for text in texts)
    hatched = [e for e in root.iter(f"{SVG}rect") if e.get("fill") == "url(#drain)"]
    assert len(hatched) == 1
    paths = [e.get("d") or "" for e in root.iter(f"{SVG}path")]
    assert [path.count("M") + path.count("L") for path in paths] == [2 * len(PRICES)]


def test_the_picture_of_a_run_that_broke_at_once_is_empty_and_whole() -> None:
    nothing = replace(
        story(), prices=(), vacates=(), grants=(), statuses=(), drains=(), usage=(), charges=()
    )
    root = ElementTree.fromstring(timeline_svg(nothing))
    assert [e.text for e in root.iter(f"{SVG}title")] == []


def test_names_are_escaped_in_the_picture() -> None:
    played = story()
    scenario = played.scenario.model_copy(update={"title": "<a & b>"})
    root = ElementTree.fromstring(timeline_svg(replace(played, scenario=scenario)))
    assert next(root.iter(f"{SVG}text")).text == "<a & b>"
