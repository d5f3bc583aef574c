import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_launcher.command import main
from walras_launcher.redis import RedisServer
from walras_launcher.wire import kafka_answers, redis_answers

RUN = [sys.executable, "-m", "walras_launcher"]


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_prints_the_addresses_and_ends_in_order_at_a_signal(number: signal.Signals) -> None:
    with subprocess.Popen([*RUN, "up", "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        assert kafka_answers(addresses["bootstrap"])
        assert redis_answers(addresses["redis"])
        process.send_signal(number)
        assert process.wait(30) == 0
    assert not kafka_answers(addresses["bootstrap"])
    assert not redis_answers(addresses["redis"])


@pytest.mark.broker
def test_redis_alone_says_in_words_what_runs_and_where() -> None:
    with subprocess.Popen([*RUN, "redis"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, url, what = process.stdout.readline().split(maxsplit=2)
        assert name == "redis"
        assert redis_answers(url)
        assert what.startswith("Redis ")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.broker
def test_kafka_alone_keeps_its_data_where_it_is_told(tmp_path: Path) -> None:
    line = [*RUN, "kafka", "--json", "--directory", str(tmp_path / "data")]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert kafka_answers(json.loads(process.stdout.readline())["bootstrap"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "data" / "data" / "meta.properties").is_file()


def test_an_error_is_said_on_standard_error_with_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["prepare"]) == 1
    assert capsys.readouterr().err.startswith("[java_missing] ")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for command in ("prepare", "doctor", "up", "kafka", "redis"):
        assert command in text


def test_a_port_that_is_taken_ends_with_a_code(
    capsys: pytest.CaptureFixture[str], own_redis: Callable[[], RedisServer]
) -> None:
    server = own_redis()
    assert main(["redis", "--port", str(server.port)]) == 1
    assert "[port_taken]" in capsys.readouterr().err
