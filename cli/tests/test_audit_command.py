"""`walras audit`: exit codes, what it prints, logs kept as files, and a real broker."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.tests.audit_days import (
    MINUTE_MS,
    Hours,
    MoneyWorld,
    changed,
    pool,
    price,
    usage,
    written,
)
from tests.integration.log_copy import row_of
from walras.__main__ import build_parser
from walras.audit import AuditError, MemoryAuditLog, audit
from walras.audit.log_directory import DirectoryLog, save_log
from walras.audit.log_view import AUDITED_TOPICS
from walras_contracts.charges import ChargeRated
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.memory.log import MemoryLog

SEED = 5


def nobody(_done: int, _total: int) -> None:
    """Take a progress."""


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return Hours(SEED, minutes=40).run(MoneyWorld()).log


@pytest.fixture
def kept(log: MemoryLog, tmp_path: Path) -> Path:
    """Return the directory of a clean log."""
    save_log(MemoryAuditLog(log), tmp_path / "log", nobody)
    return tmp_path / "log"


def run(*words: str) -> int:
    arguments: argparse.Namespace = build_parser("audit").parse_args(["audit", *words])
    code: int = arguments.run(arguments)
    return code


def tampered(root: Path) -> None:
    """Let a charge line of a kept log say 1 more."""
    for path in sorted((root / "charges").iterdir()):
        lines = path.read_text("utf-8").splitlines()
        for place, line in enumerate(lines):
            record = json.loads(line)
            if record.get("type") == ChargeRated.TYPE:
                amount = str(int(record["data"]["amount_numerator"]) + 1)
                record["data"]["amount_numerator"] = amount
                lines[place] = json.dumps(record)
                path.write_text("\n".join(lines) + "\n", "utf-8")
                return
    raise AssertionError("no charge line to tamper with")


def misformed(root: Path, topic: str, path: Sequence[Any], value: object) -> None:
    """Let the last record of a kept topic that has a field say something else there."""
    for file in sorted((root / topic).iterdir()):
        lines = file.read_text("utf-8").splitlines()
        for place in reversed(range(len(lines))):
            record = json.loads(lines[place])
            at: Any = record.get("data") or {}
            try:
                for name in path[:-1]:
                    at = at[name]
                at[path[-1]]
            except (KeyError, IndexError):
                continue
            at[path[-1]] = value
            lines[place] = json.dumps(record)
            file.write_text("\n".join(lines) + "\n", "utf-8")
            return
    raise AssertionError(f"no record of {topic} has {path}")


def test_a_kept_log_is_audited_as_the_log_itself(log: MemoryLog, kept: Path) -> None:
    assert audit(DirectoryLog(kept)).document() == audit(log).document()
    for topic in AUDITED_TOPICS:
        for partition in log.partitions(topic):
            view = MemoryAuditLog(log)
            found = [e._replace(key="") if e.barrier else e for e in view.entries(topic, partition)]
            assert [*DirectoryLog(kept).entries(topic, partition)] == found
            assert DirectoryLog(kept).last_barrier(topic, partition) == view.last_barrier(
                topic, partition
            )


def test_a_log_is_not_kept_where_something_is_already(log: MemoryLog, kept: Path) -> None:
    with pytest.raises(AuditError, match="is not empty"):
        save_log(MemoryAuditLog(log), kept, nobody)


def test_a_clean_log_ends_with_0_and_says_what_was_compared(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--log", str(kept)) == 0
    text = capsys.readouterr().out
    assert "clean: all is as usage, prices, accounts and drains ask for" in text
    assert "Money in µcr" in text
    assert "quarantined: malformed" in text
    assert "charges" in text


def test_a_tampered_log_ends_with_1_and_shows_the_line_and_both_amounts(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tampered(kept)
    assert run("--log", str(kept)) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "charge_differs: a charge line says something else than usage and prices" in text
    assert "2 differences in 2 kinds" in text

    assert run("--log", str(kept), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["found"] == {"charge_differs": 1, "record_sum": 1}
    (differs,) = [d for d in document["differences"] if d["code"] == "charge_differs"]
    must, found = (int(differs[name].split()[1]) for name in ("expected", "found"))
    assert found == must + 1
    assert not document["clean"]


def test_settings_of_billing_that_are_not_its_own_are_told(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Another grace would have rated use in other steps: the log is not what it asks for.
    assert run("--log", str(kept), "--json", "--price-grace", "120000") == 1
    assert json.loads(capsys.readouterr().out)["found"]["charge_differs"] > 0


BAD: list[tuple[Sequence[str], str]] = [
    ((), "name a broker with --bootstrap, or files with --log"),
    (("--log", "nowhere"), "nowhere is no directory"),
    (("--log", "DIR", "--save", "other"), "nothing to keep with --save"),
    (("--bootstrap", "127.0.0.1:1"), "the broker 127.0.0.1:1 does not answer"),
]


@pytest.mark.parametrize(("words", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_what_cannot_be_audited_ends_with_2_and_one_line(
    words: Sequence[str],
    reason: str,
    kept: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)
    assert run(*(str(kept) if word == "DIR" else word for word in words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("walras audit: ")
    assert reason in said.err
    assert said.err.count("\n") == 1


def test_a_kept_log_with_a_line_that_is_none_or_a_topic_too_few_is_refused(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kept / "ledger" / "0.jsonl"
    path.write_text(path.read_text("utf-8").replace("market_time", "time", 1), "utf-8")
    assert run("--log", str(kept)) == 2
    assert "ledger/0.jsonl:1: not a record of a log" in capsys.readouterr().err
    for each in (kept / "ledger").iterdir():
        each.unlink()
    assert run("--log", str(kept)) == 2
    assert "the log has no topic ledger" in capsys.readouterr().err


@pytest.mark.parametrize("gone", [0, 1, 3])
@pytest.mark.parametrize("topic", ["usage", "charges", "drain.status"])
def test_a_kept_log_with_a_partition_too_few_is_refused(
    topic: str, gone: int, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / topic / f"{gone}.jsonl").unlink()
    assert run("--log", str(kept)) == 2
    assert topic in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "path", "value"),
    [
        ("charges", ("team",), {}),
        ("charges.pending", ("end_ms",), "x"),
        ("usage.quarantined", ("code",), 0),
        ("invoices", ("team",), -1),
        ("invoices", ("lines", 0, "kind"), []),
        ("ledger", ("lines", 0, "amount_micro"), "1"),
        ("balances", ("team",), None),
        ("budgets", ("reason",), "weather"),
        ("budgets.alerts", ("budget", "limit_micro"), "1"),
    ],
)
def test_what_is_not_of_the_form_of_its_contract_is_a_difference(
    topic: str, path: Sequence[Any], value: object, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    misformed(kept, topic, path, value)
    assert run("--log", str(kept), "--json") == 1
    assert "unreadable" in json.loads(capsys.readouterr().out)["found"]


@pytest.mark.parametrize(
    ("topic", "path", "value"),
    [
        ("prices", ("pools", 0, "price_micro"), "01"),
        ("accounts", ("document", "billing", "grace_ms"), "1/0"),
        ("accounts", ("document", "teams", 0, "team"), 1.5),
        ("accounts", ("effective_ms",), "x"),
    ],
)
def test_what_all_is_computed_from_must_be_of_the_form_of_its_contract(
    topic: str, path: Sequence[Any], value: object, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    misformed(kept, topic, path, value)
    assert run("--log", str(kept)) == 2
    assert f"walras audit: {topic}/" in capsys.readouterr().err


def test_how_far_invoices_go_is_told_where_they_lag(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (kept / "invoices").iterdir():
        lines = path.read_text("utf-8").splitlines()
        last = next(n for n, line in enumerate(lines) if json.loads(line).get("barrier") == 9)
        path.write_text("\n".join(lines[: last + 1]) + "\n", "utf-8")
    assert run("--log", str(kept)) == 0
    assert "invoices up to barrier 9 " in capsys.readouterr().out


@pytest.mark.parametrize("value", ["a minute", "-1", "1.5", "²"])
def test_a_duration_that_is_none_is_named(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        run("--log", "x", f"--look-back={value}")
    assert f"argument --look-back: {value!r} is no number of ms" in capsys.readouterr().err
    # Billing would not start with such a setting: another one must not be assumed in its place.
    monkeypatch.setenv("WALRAS_BILLING_LOOK_BACK_MS", value)
    with pytest.raises(SystemExit):
        run("--log", "x")
    assert f"argument --look-back: {value!r} is no number of ms" in capsys.readouterr().err


async def write(bootstrap: str, log: MemoryLog) -> None:
    """Write what is audited to a broker, and among it a charge of a transaction that is aborted."""
    topics = {name: log.topics[name] for name in AUDITED_TOPICS}
    await create_topics(bootstrap, topics)
    producer = make_producer(bootstrap, transactional_id="copy", transaction_timeout_ms=60_000)
    await producer.start()
    try:
        _, _, charge = next(written(log, "charges"))
        stray: dict[tuple[str, int], list[Row]] = {
            (topics["charges"].full_name, 0): [row_of(charge)]
        }
        await producer.begin_transaction()
        for future in await send_rows(producer, stray):
            await future
        await producer.abort_transaction()
        await producer.begin_transaction()
        rows = {
            (topic.full_name, partition): [row_of(e) for e in log.read(name, partition, 0)]
            for name, topic in topics.items()
            for partition in log.partitions(name)
        }
        for future in await send_rows(producer, rows):
            await future
        await producer.commit_transaction()
    finally:
        await producer.stop()


@pytest.mark.broker
@pytest.mark.timeout(300)
def test_a_broker_s_log_is_audited_as_the_log_in_memory(
    own_broker: OwnBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    for minute in range(9):
        record = usage("l1", minute, minute * MINUTE_MS, (minute + 1) * MINUTE_MS)
        world.step(minute + 1, record)
    bootstrap = own_broker().bootstrap
    assert run("--bootstrap", bootstrap) == 2
    assert "the log has no topic usage" in capsys.readouterr().err
    asyncio.run(write(bootstrap, world.log))

    assert run("--bootstrap", bootstrap, "--json", "--save", str(tmp_path / "kept")) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document == audit(world.log).document()
    assert document["counts"]["charges"] == 8
    assert run("--bootstrap", bootstrap, "--json") == 0
    assert json.loads(capsys.readouterr().out) == document
    assert run("--log", str(tmp_path / "kept")) == 0
