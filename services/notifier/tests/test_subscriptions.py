"""The settings file and its secrets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.notifier.tests.notices import notice
from walras_contracts.drains import NoticeKind
from walras_notifier.adapters.configuration import read_configuration
from walras_notifier.settings import Settings
from walras_notifier.subscriptions import (
    Receiver,
    Routing,
    Subscription,
    SubscriptionsError,
    parse_subscriptions,
)
from walras_runtime.settings import SettingsError

GOOD = """
[mail]
host = "smtp.example.org"
user = "walras"
password = "SMTP_PASSWORD"
from = "walras@example.org"

[[receiver]]
name = "vision-bot"
url = "https://bot.example.org/walras?token=s3cr3t-token"
secret = "VISION_BOT_SECRET"
[[receiver.subscription]]
team = "vision"

[[receiver]]
name = "oncall"
email = "oncall@example.org"
[[receiver.subscription]]
team = "*"
kinds = ["node_lost", "drain_escalated"]
[[receiver.subscription]]
team = "speech"
"""
SECRETS = {"VISION_BOT_SECRET": "0123456789abcdef", "SMTP_PASSWORD": "hunter2"}
TEAMS = ("vision", "speech", "robots")


def faults(text: str) -> list[str]:
    with pytest.raises(SubscriptionsError) as caught:
        parse_subscriptions(text)
    return str(caught.value).splitlines()


def replaced(old: str, new: str) -> list[str]:
    assert GOOD.count(old) == 1
    return faults(GOOD.replace(old, new))


def test_a_good_file_is_read() -> None:
    found = parse_subscriptions(GOOD)
    assert [(r.name, r.channel) for r in found.receiver] == [
        ("vision-bot", "webhook"),
        ("oncall", "email"),
    ]
    assert found.mail is not None
    assert (found.mail.port, found.mail.security) == (587, "starttls")
    assert found.secret_names() == ["SMTP_PASSWORD", "VISION_BOT_SECRET"]


def test_a_notice_goes_to_those_who_asked_for_it_once_each() -> None:
    routing = Routing(parse_subscriptions(GOOD).receiver)
    lost = NoticeKind.NODE_LOST
    assert routing.receivers_of(notice(team="vision")) == ["vision-bot"]
    assert routing.receivers_of(notice(team="vision", kind=lost)) == ["vision-bot", "oncall"]
    assert routing.receivers_of(notice(team="speech", kind=lost)) == ["oncall"]
    assert routing.receivers_of(notice(team="robots")) == []


@given(
    st.lists(
        st.lists(
            st.builds(
                Subscription,
                team=st.sampled_from((*TEAMS, "*")),
                kinds=st.none() | st.lists(st.sampled_from(NoticeKind), min_size=1).map(tuple),
            ),
            min_size=1,
            max_size=3,
        ),
        max_size=4,
    ),
    st.sampled_from(TEAMS),
    st.sampled_from(NoticeKind),
)
def test_routing_finds_what_looking_at_all_finds(
    wanted: list[list[Subscription]], team: str, kind: NoticeKind
) -> None:
    receivers = [
        Receiver(name=f"r{n}", email=f"r{n}@example.org", subscription=tuple(subscriptions))
        for n, subscriptions in enumerate(wanted)
    ]
    found = Routing(receivers).receivers_of(notice(team=team, kind=kind))
    assert sorted(found) == sorted(
        r.name
        for r in receivers
        if any(s.team in {team, "*"} and (not s.kinds or kind in s.kinds) for s in r.subscription)
    )
    assert len(set(found)) == len(found)


def test_faults_name_their_place_and_all_of_them() -> None:
    text = GOOD.replace('team = "vision"', 'team = "a b"').replace("node_lost", "node_gone")
    places = [fault.partition(":")[0] for fault in faults(text)]
    assert places == [
        "receiver vision-bot subscription 1 team",
        "receiver oncall subscription 1 kinds 1",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('secret = "VISION_BOT_SECRET"', "", "url and secret go together"),
        ('email = "oncall@example.org"', "", "either url and secret, or email"),
        ('email = "oncall@example.org"', 'email = "On Call <o@x.org>"', "one e-mail address"),
        ('email = "oncall@example.org"', 'email = "a@b\\nBcc: c@d"', "one e-mail address"),
        ("https://bot", "http://bot", "plain_http"),
        ("https://bot", "ftp://bot", "https://host/"),
        ("https://bot", "https://user:pw@bot", "user or a password"),
        ("?token=s3cr3t-token", "#part", "fragment"),
        ('"VISION_BOT_SECRET"', '"0f3b-the-secret-itself"', "not the secret"),
        ('"VISION_BOT_SECRET"', '"WALRAS_NOTIFIER_KEY"', "not the secret"),
        ('name = "oncall"', 'name = "vision-bot"', "the same name"),
        ('host = "smtp.example.org"', 'host = "smtp.example.org"\nsecurity="none"', "in clear"),
        ('user = "walras"\n', "", "user and password go together"),
        ('team = "vision"', 'team = "vision"\nkind = "x"', "Extra inputs"),
        ('team = "vision"', 'team = "vision"\nkinds = []', "must not be empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(old: str, new: str, said: str) -> None:
    found = "\n".join(replaced(old, new))
    assert said in found
    for word in ("s3cr3t", "the-secret-itself", "pw@", "oncall@"):
        assert word not in found


def test_mail_needs_a_server_and_a_receiver_one_table() -> None:
    mail, _, receivers = GOOD.partition("[[receiver]]")
    assert "[mail] is needed" in faults(f"[[receiver]]{receivers}")[0]
    assert parse_subscriptions(mail).receiver == ()
    assert parse_subscriptions("").receiver == ()
    assert "not TOML" in faults("[[receiver")[0]
    assert faults("receiver = [5]")[0].startswith("receiver 1: ")


def test_plain_http_is_for_this_machine_unless_it_is_asked_for() -> None:
    for url in ("http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]/x"):
        found = parse_subscriptions(GOOD.replace("https://bot.example.org/walras", url))
        assert found.receiver[0].channel == "webhook"
    asked = GOOD.replace("https://bot", "http://bot").replace(
        'name = "vision-bot"', 'name = "vision-bot"\nplain_http = true'
    )
    assert parse_subscriptions(asked).receiver[0].plain_http


def test_two_receivers_are_not_one_address() -> None:
    twice = GOOD + GOOD.partition("[[receiver]]")[2].join(("[[receiver]]", "")).replace(
        "vision-bot", "other"
    ).replace('name = "oncall"', 'name = "third"').replace("oncall@", "third@")
    assert faults(twice) == [
        "file: two receivers have the same url: make them one, with both tables"
    ]


# --- secrets ----------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "subscriptions.toml"
    path.write_text(GOOD, "utf-8")
    return str(path)


def test_secrets_come_from_files_first_and_then_from_the_environment(
    file: str, tmp_path: Path
) -> None:
    (tmp_path / "SMTP_PASSWORD").write_bytes(b"from the file\n")
    found = read_configuration(file, str(tmp_path), SECRETS)
    assert found.secrets == {
        "SMTP_PASSWORD": b"from the file",
        "VISION_BOT_SECRET": b"0123456789abcdef",
    }


def test_secrets_are_not_in_what_is_shown_of_a_configuration(file: str) -> None:
    shown = repr(read_configuration(file, None, SECRETS))
    assert "hunter2" not in shown
    assert "0123456789abcdef" not in shown


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ({}, "not in the environment: SMTP_PASSWORD, VISION_BOT_SECRET"),
        ({**SECRETS, "SMTP_PASSWORD": ""}, "not in the environment: SMTP_PASSWORD"),
        ({**SECRETS, "VISION_BOT_SECRET": "tooshort"}, "16 bytes or more: VISION_BOT_SECRET"),
    ],
)
def test_secrets_that_are_missing_or_short_are_named(
    file: str, secrets: dict[str, str], said: str
) -> None:
    with pytest.raises(SubscriptionsError, match=said) as caught:
        read_configuration(file, None, secrets)
    assert "tooshort" not in str(caught.value)


def test_the_settings_check_the_file_too(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_KAFKA_BOOTSTRAP", "nowhere.invalid:9092")
    assert Settings.read().configuration().subscriptions.receiver == ()
    monkeypatch.setenv("WALRAS_NOTIFIER_SUBSCRIPTIONS", file)
    with pytest.raises(SettingsError) as caught:
        Settings.read()
    assert str(caught.value) == (
        "WALRAS_NOTIFIER_SUBSCRIPTIONS: secrets that are not in the environment: "
        "SMTP_PASSWORD, VISION_BOT_SECRET"
    )
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert len(Settings.read().configuration().subscriptions.receiver) == 2
    monkeypatch.setenv("WALRAS_NOTIFIER_SUBSCRIPTIONS", f"{file}.missing")
    with pytest.raises(SettingsError, match="cannot be read: FileNotFoundError"):
        Settings.read()
