"""What `docs/notifications.md` shows works as it is written there."""

import doctest
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.notifier.tests.notices import notice
from walras_contracts.drains import NoticeKind
from walras_notifier.rendering import webhook_body
from walras_notifier.signing import headers
from walras_notifier.subscriptions import parse_subscriptions

PAGE = Path(__file__).resolve().parents[3] / "docs/notifications.md"
TEXT = PAGE.read_text("utf-8")
NOW_S = 1_767_268_800


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def verify_of_the_page() -> Any:
    """Run the page up to the function for receivers; return that."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(fenced("python")[0]):
        exec(example.source, names)
    return names["verify"]


def test_the_examples_give_what_they_say() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.attempted > 5
    assert outcome.failed == 0


@given(secret=st.binary(min_size=16, max_size=64), late_s=st.integers(-300, 300))
def test_a_receiver_that_checks_as_the_page_says_takes_what_the_notifier_sends(
    secret: bytes, late_s: int
) -> None:
    verify = verify_of_the_page()
    body = webhook_body(notice())
    sent = headers("n1", secret, NOW_S, body)
    timestamp, signature = sent["Walras-Timestamp"], sent["Walras-Signature"]
    assert verify([secret], timestamp, signature, body, NOW_S + late_s)
    assert not verify([secret], timestamp, signature, body[1:], NOW_S + late_s)
    assert not verify([secret + b"x"], timestamp, signature, body, NOW_S + late_s)
    assert not verify([secret], timestamp, signature, body, NOW_S + 301)


@given(timestamp=st.text(max_size=20), signature=st.text(max_size=80))
def test_nothing_strange_is_taken_or_breaks_the_check(timestamp: str, signature: str) -> None:
    assert not verify_of_the_page()([b"k" * 16], timestamp, signature, b"{}", NOW_S)


def test_the_file_of_the_page_can_be_used() -> None:
    (text,) = fenced("toml")
    found = parse_subscriptions(text)
    assert [receiver.name for receiver in found.receiver] == ["vision-bot", "oncall"]
    assert found.secret_names() == ["SMTP_PASSWORD", "VISION_BOT_KEY"]


def test_the_page_shows_all_fields_of_a_webhook_and_all_kinds() -> None:
    (shown,) = fenced("json")
    assert json.loads(shown).keys() == json.loads(webhook_body(notice())).keys()
    for kind in NoticeKind:
        assert f"`{kind.value}`" in TEXT
