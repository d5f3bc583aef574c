"""E-mail to a real server on loopback."""

import asyncio
import base64
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest

from services.notifier.tests.loopback_servers import (
    MailServerScript,
    SmtpServer,
    server_context,
    trusting_context,
    until,
)
from services.notifier.tests.notices import notice
from walras_notifier.adapters.mailing import CONNECTIONS, open_mailer
from walras_notifier.outcomes import Delivered, Failed, Outcome, Refused
from walras_notifier.subscriptions import EVERYBODY, MailServer, Receiver, Subscription
from walras_runtime.health import Health

LOGIN = base64.b64encode(b"\0walras\0hunter2").decode()
ONCALL = Receiver(
    name="oncall", email="oncall@example.org", subscription=(Subscription(team=EVERYBODY),)
)


def mail_server(server: SmtpServer, **values: Any) -> MailServer:
    defaults = {"host": "127.0.0.1", "security": "none", "from": "walras@example.org"}
    return MailServer(**{**defaults, "port": server.port, **values})


class Sent:
    """What came of one mail to a server that answers by a script."""

    def __init__(self, script: MailServerScript, **values: Any) -> None:
        self.server = SmtpServer(script)
        self.health = Health()
        self.values = values
        self.outcome = asyncio.run(self._run())

    async def _run(self) -> Outcome:
        timeout_ms = self.values.pop("timeout_ms", 10_000)
        tls = server_context() if self.values.get("security") == "tls" else None
        async with (
            self.server.running(tls),
            open_mailer(
                mail_server(self.server, **self.values),
                b"hunter2" if "user" in self.values else None,
                timeout_ms=timeout_ms,
                health=self.health,
                context=trusting_context(),
            ) as mailer,
        ):
            return await mailer(ONCALL, notice())


def test_a_notice_is_handed_over_with_reason_and_deadline() -> None:
    sent = Sent(MailServerScript())
    assert sent.outcome == Delivered()
    (mail,) = sent.server.mails
    assert mail.recipient == "oncall@example.org"
    message = message_from_bytes(mail.data, policy=default)
    assert message["Message-ID"] == "<n1@example.org>"
    assert "quota_lost, by 2026-01-01T12:02:00.000Z" in message["Subject"]
    assert "Deadline:     2026-01-01T12:02:00.000Z" in message.get_content()
    assert sent.server.commands[-1] == "QUIT"
    assert sent.health.faults == {}


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_over_tls_the_password_and_the_mail_are_encrypted(security: str) -> None:
    script = MailServerScript(tls=security == "starttls", login=LOGIN)
    values = {"security": security, "user": "walras", "password": "SMTP", "host": "localhost"}
    sent = Sent(script, **values)
    assert sent.outcome == Delivered()
    assert sent.server.mails[0].encrypted
    commands = sent.server.commands
    assert commands.index("AUTH") > (commands.index("STARTTLS") if script.tls else -1)


def test_without_starttls_nothing_is_sent_in_clear_instead() -> None:
    script = MailServerScript(tls=False, login=LOGIN)
    sent = Sent(script, security="starttls", user="walras", password="SMTP")
    assert sent.outcome == Failed("smtp starttls: SMTPNotSupportedError")
    assert sent.health.faults == {"smtp": "starttls: SMTPNotSupportedError"}
    assert not {"AUTH", "MAIL", "DATA"} & set(sent.server.commands)


def test_a_certificate_of_another_host_is_a_failure() -> None:
    async def run() -> Outcome:
        server = SmtpServer(MailServerScript(tls=True))
        async with server.running():
            there = mail_server(server, security="starttls")
            # Without a context of its own the system's certificates count.
            async with open_mailer(there, None, timeout_ms=5_000, health=Health()) as mailer:
                return await mailer(ONCALL, notice())

    assert asyncio.run(run()) == Failed("smtp starttls: SSLCertVerificationError")


@pytest.mark.parametrize(
    ("replies", "wanted", "red"),
    [
        ({"RCPT": ["550 nobody of that name"]}, Refused("smtp 550"), False),
        ({"RCPT": ["450 come back later"]}, Failed("smtp 450"), False),
        ({".": ["554 spam"]}, Refused("smtp 554"), False),
        ({".": ["451 later"]}, Failed("smtp 451"), False),
        ({".": ["CLOSE"]}, Failed("smtp mail: SMTPServerDisconnected"), True),
        ({"HELLO": ["421 too busy"]}, Failed("smtp connect: smtp 421"), True),
        ({"HELLO": ["CLOSE"]}, Failed("smtp connect: SMTPServerDisconnected"), True),
        ({"MAIL": ["550 who are you"]}, Failed("smtp mail: smtp 550"), True),
        ({"QUIT": ["CLOSE"]}, Delivered(), False),
        ({"QUIT": ["500 what"]}, Delivered(), False),
    ],
)
def test_the_answer_decides(replies: dict[str, list[str]], wanted: Outcome, red: bool) -> None:
    sent = Sent(MailServerScript(replies=replies))
    assert sent.outcome == wanted
    assert bool(sent.health.faults) is red


def test_a_wrong_password_is_a_fault_of_the_configuration_not_of_the_mail() -> None:
    script = MailServerScript(login="another")
    sent = Sent(script, user="walras", password="SMTP")
    assert sent.outcome == Failed("smtp login: smtp 535")
    assert sent.health.faults == {"smtp": "login: smtp 535"}


@pytest.mark.parametrize("command", ["EHLO", "RCPT", "."])
def test_a_server_that_hangs_is_left_after_a_time(command: str) -> None:
    sent = Sent(MailServerScript(replies={command: ["HANG"]}), timeout_ms=300)
    assert sent.outcome == Failed("smtp no answer in time")
    assert sent.health.faults == {"smtp": "no answer in time"}


def test_nobody_at_the_address_is_a_failure_and_a_delivery_clears_it() -> None:
    async def run() -> None:
        health, server = Health(), SmtpServer()
        async with server.running():
            there = mail_server(server)
        async with open_mailer(there, None, timeout_ms=5_000, health=health) as mailer:
            assert await mailer(ONCALL, notice()) == Failed("smtp connect: ConnectionRefusedError")
            assert health.faults == {"smtp": "connect: ConnectionRefusedError"}
        async with (
            server.running(),
            open_mailer(mail_server(server), None, timeout_ms=5_000, health=health) as mailer,
        ):
            assert await mailer(ONCALL, notice()) == Delivered()
            assert health.faults == {}

    asyncio.run(run())


def test_threads_that_were_given_up_are_free_again_for_others() -> None:
    async def run() -> None:
        hanging = ["HANG"] * CONNECTIONS
        server = SmtpServer(MailServerScript(replies={"RCPT": hanging}))
        async with (
            server.running(),
            open_mailer(mail_server(server), None, timeout_ms=300, health=Health()) as mailer,
        ):
            firsts = [mailer(ONCALL, notice(n)) for n in range(CONNECTIONS)]
            assert set(await asyncio.gather(*firsts)) == {Failed("smtp no answer in time")}
            assert await mailer(ONCALL, notice()) == Delivered()

    asyncio.run(run())


def test_a_mail_that_is_broken_off_ends_its_conversation() -> None:
    async def run() -> None:
        server = SmtpServer(MailServerScript(replies={"RCPT": ["HANG"]}))
        async with (
            server.running(),
            open_mailer(mail_server(server), None, timeout_ms=60_000, health=Health()) as mailer,
        ):
            sending = asyncio.create_task(_send(mailer))
            await until(lambda: "RCPT" in server.commands, "the recipient")
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await until(lambda: "GONE" in server.commands, "the end of the conversation")

    asyncio.run(run())


async def _send(mailer: Any) -> Outcome:
    outcome: Outcome = await mailer(ONCALL, notice())
    return outcome
