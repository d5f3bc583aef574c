"""Settings: frozen, unknown keys refused, every fault named at once with its variable."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from walras_runtime.settings import ServiceSettings, SettingsError

ECHO = Path(__file__).with_name("echo_service.py")


class Settings(ServiceSettings):
    """Some service."""

    SERVICE = "some"
    width: int
    """How wide."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WALRAS_")]:
        monkeypatch.delenv(name)


def test_own_variables_win_over_shared_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_KAFKA_BOOTSTRAP", "shared:1")
    monkeypatch.setenv("WALRAS_SOME_WIDTH", "4")
    assert Settings.read().kafka_bootstrap == "shared:1"
    monkeypatch.setenv("WALRAS_SOME_KAFKA_BOOTSTRAP", "own:1")
    settings = Settings.read()
    assert (settings.kafka_bootstrap, settings.width) == ("own:1", 4)


@pytest.mark.parametrize(("mode", "expected"), [("live", (5_000, 6)), ("replay", (60_000, 1))])
def test_barriers_and_cycles_are_counted_as_the_mode_does_where_nothing_is_set(
    monkeypatch: pytest.MonkeyPatch, mode: str, expected: tuple[int, int]
) -> None:
    def counted() -> tuple[int, int]:
        settings = Settings.read(kafka_bootstrap="x:1", width=5, mode=mode)
        return settings.barrier_interval_ms(), settings.barriers_per_cycle()

    assert counted() == expected
    monkeypatch.setenv("WALRAS_INTERVAL_MS", "1000")
    monkeypatch.setenv("WALRAS_CYCLE_EVERY", "2")
    assert counted() == (1_000, 2)


def test_explicit_values_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_SOME_WIDTH", "4")
    assert Settings.read(kafka_bootstrap="x:1", width=5).width == 5


def test_a_field_of_its_own_has_no_shared_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_WIDTH", "4")
    with pytest.raises(SettingsError, match="WALRAS_SOME_WIDTH: Field required"):
        Settings.read(kafka_bootstrap="x:1")


def test_all_faults_are_reported_at_once_with_the_variables_that_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WALRAS_SOME_WIDTH", "wide")
    monkeypatch.setenv("WALRAS_SOME_MODE", "fast")
    monkeypatch.setenv("WALRAS_REPLICA_INDEX", "-1")
    monkeypatch.setenv("WALRAS_SOME_HIGHT", "3")
    monkeypatch.setenv("WALRAS_REDIS_URL", "redis://:secret@host")
    with pytest.raises(SettingsError) as error:
        Settings.read()
    lines = dict(line.split(": ", 1) for line in str(error.value).splitlines())
    assert sorted(lines) == [
        "WALRAS_KAFKA_BOOTSTRAP",
        "WALRAS_REPLICA_INDEX",
        "WALRAS_SOME_HIGHT",
        "WALRAS_SOME_MODE",
        "WALRAS_SOME_WIDTH",
    ]
    assert "required" in lines["WALRAS_KAFKA_BOOTSTRAP"]
    assert "(was 'wide')" in lines["WALRAS_SOME_WIDTH"]
    assert "not permitted" in lines["WALRAS_SOME_HIGHT"]
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "variable", ["WALRAS_KAFKA_BOOTSTRAPS", "WALRAS_REPLICAINDEX", "WALRAS_SOMEWIDTH", "WALRAS_"]
)
def test_a_variable_that_is_nobodys_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError, match=f"^{variable}: .*not permitted"):
        Settings.read(kafka_bootstrap="x:1", width=5)


@pytest.mark.parametrize(
    "variable",
    [
        *("WALRAS_CACHE_DIR", "WALRAS_REQUIRE", "WALRAS_WAIVE", "WALRAS_SEED"),
        *("WALRAS_HYPOTHESIS_PROFILE", "WALRAS_CLEARING_BUILD", "WALRAS_QUOTA_FILE"),
        *("WALRAS_SNAPSHOT_REDIS_TIMEOUT_MS", "WALRAS_NODE_AGENT_SAVE_MS", "WALRAS_VIEWS_ANYTHING"),
    ],
)
def test_variables_of_tools_and_of_other_services_are_none_of_its_business(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert Settings.read(kafka_bootstrap="x:1", width=5).width == 5


def test_every_variable_that_a_tool_documents_is_let_through_by_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (Path(__file__).parents[3] / "docs/settings.md").read_text("utf-8")
    for variable in re.findall(
        r"^\| `(WALRAS_\w+)`", page.partition("## Command line")[2], re.MULTILINE
    ):
        monkeypatch.setenv(variable, "1")
    assert Settings.read(kafka_bootstrap="x:1", width=5).width == 5


def test_a_replica_without_a_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALRAS_REPLICA_COUNT", "2")
    monkeypatch.setenv("WALRAS_REPLICA_INDEX", "2")
    message = "^WALRAS_REPLICA_INDEX: 2 is not below WALRAS_REPLICA_COUNT, which is 2$"
    with pytest.raises(SettingsError, match=message):
        Settings.read(kafka_bootstrap="x:1", width=5)
    monkeypatch.delenv("WALRAS_REPLICA_COUNT")
    with pytest.raises(SettingsError, match="which is 1"):
        Settings.read(kafka_bootstrap="x:1", width=5)


def test_settings_cannot_be_changed() -> None:
    settings = Settings.read(kafka_bootstrap="x:1", width=5)
    with pytest.raises(ValidationError, match="frozen"):
        settings.width = 6  # type: ignore[misc] # the point of this test


def test_the_description_names_every_variable_its_default_and_its_meaning() -> None:
    text = Settings.describe()
    assert "WALRAS_SOME_WIDTH (required)\n      How wide." in text
    assert "WALRAS_KAFKA_BOOTSTRAP (required)" in text
    for field in ServiceSettings.model_fields:
        assert f"WALRAS_{field.upper()} (" in text


def run_echo(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("WALRAS_", "ECHO_"))}
    return subprocess.run(
        [sys.executable, str(ECHO), *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_config_exits_with_0_on_usable_settings() -> None:
    done = run_echo("--check-config", WALRAS_KAFKA_BOOTSTRAP="x:1", WALRAS_ECHO_SPREAD="false")
    assert (done.returncode, done.stdout, done.stderr) == (0, "settings are usable\n", "")


def test_check_config_exits_with_2_and_names_the_faults() -> None:
    done = run_echo("--check-config", WALRAS_ECHO_SPREAD="perhaps")
    assert (done.returncode, done.stdout) == (2, "")
    assert "WALRAS_ECHO_SPREAD" in done.stderr
    assert "WALRAS_KAFKA_BOOTSTRAP" in done.stderr


def test_unusable_settings_end_a_start_before_it_touches_the_broker() -> None:
    done = run_echo(WALRAS_ECHO_UNKNOWN="1", WALRAS_KAFKA_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == 2
    assert "WALRAS_ECHO_UNKNOWN" in done.stderr
