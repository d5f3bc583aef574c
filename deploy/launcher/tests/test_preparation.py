import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_launcher.errors import LauncherError
from walras_launcher.kafka import prepare_kafka, start_kafka
from walras_launcher.preparation import Preparation, kafka_home, prepare, server_properties
from walras_launcher.pytest_plugin import missing

Script = Callable[[str, str], Path]

HELPER = """
from walras_launcher.kafka import prepare_kafka
print(len(prepare_kafka(progress=lambda line: None).steps))
"""


@pytest.fixture(scope="module")
def prepared() -> Preparation:
    try:
        return prepare_kafka()
    except LauncherError as error:
        missing("broker", error)


@pytest.fixture
def new_cache(prepared: Preparation, tmp_path: Path) -> dict[str, str]:
    """An environment whose cache has the jars and nothing else; hard links spare the copy."""
    environment = {**os.environ, "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    jars = kafka_home(environment) / "lib"
    jars.parent.mkdir(parents=True)
    shutil.copytree(prepared.jars, jars)
    return environment


@pytest.mark.broker
def test_a_second_preparation_finds_all_in_place_and_does_nothing(prepared: Preparation) -> None:
    said: list[str] = []
    again = prepare_kafka(progress=said.append)
    assert (said, again.steps) == ([], ())
    assert again.complete()
    assert again.home == prepared.home


@pytest.mark.broker
def test_of_two_preparations_at_once_one_works_and_one_waits(new_cache: dict[str, str]) -> None:
    helpers = [
        subprocess.Popen(
            [sys.executable, "-c", HELPER], env=new_cache, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    steps = sorted(int(helper.communicate()[0]) for helper in helpers)
    assert [helper.returncode for helper in helpers] == [0, 0]
    assert steps == [0, 2]
    assert Preparation(kafka_home(new_cache), prepare_kafka(environment=new_cache).java).complete()


@pytest.mark.broker
def test_a_class_archive_that_cannot_be_made_costs_only_speed(new_cache: dict[str, str]) -> None:
    def broken(_prepared: Preparation, archive: Path) -> None:
        archive.write_bytes(b"half an archive")
        raise LauncherError("not_ready", "The training broker did not answer.", "Nothing.")

    said: list[str] = []
    result = prepare(broken, progress=said.append, environment=new_cache)
    assert said[-1].startswith("no class archive")
    assert not result.archive.exists()
    assert not list(result.home.glob("*.partial"))
    assert "did not answer" in result.archive_failed.read_text("utf-8")
    assert prepare(broken, progress=said.append, environment=new_cache).steps == ()
    with start_kafka(environment=new_cache, progress=said.append) as broker:
        assert broker.running


@pytest.mark.broker
def test_a_damaged_class_archive_does_not_stop_a_broker(new_cache: dict[str, str]) -> None:
    def damage(_prepared: Preparation, archive: Path) -> None:
        archive.write_bytes(b"damaged")

    result = prepare(damage, environment=new_cache)
    assert result.archive.read_bytes() == b"damaged"
    with start_kafka(environment=new_cache) as broker:
        assert broker.running


def test_without_java_the_error_names_it_and_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(LauncherError) as refused:
        start_kafka(environment={"PATH": str(tmp_path), "WALRAS_CACHE_DIR": str(tmp_path)})
    assert refused.value.code == "java_missing"
    assert "openjdk-17" in refused.value.remedy
    assert not refused.value.retriable


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "java_too_old"),
        ("echo 'java version \"1.8.0_202\"' >&2", "java_too_old"),
        ("exit 3", "java_unusable"),
        ("echo hello", "java_unusable"),
    ],
)
def test_a_java_that_cannot_run_kafka_is_refused_with_a_code(
    body: str, code: str, script: Script, tmp_path: Path
) -> None:
    directory = script("java", body)
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    with pytest.raises(LauncherError) as refused:
        start_kafka(environment=environment)
    assert refused.value.code == code
    assert str(directory / "java") in refused.value.message


def test_java_home_goes_before_path(script: Script, tmp_path: Path) -> None:
    home = script("java", "echo 'openjdk version \"11.0.2\"' >&2").parent
    environment = {**os.environ, "JAVA_HOME": str(home), "WALRAS_CACHE_DIR": str(tmp_path)}
    with pytest.raises(LauncherError) as refused:
        start_kafka(environment=environment)
    assert refused.value.code == "java_too_old"


JAVA_17 = "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2"


def test_without_maven_and_without_jars_the_error_says_how_to_get_it(
    script: Script, tmp_path: Path
) -> None:
    directory = script("java", JAVA_17)
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    with pytest.raises(LauncherError) as refused:
        prepare_kafka(environment=environment)
    assert refused.value.code == "maven_missing"


@pytest.mark.parametrize(
    ("body", "code"),
    [("echo no route to the repository; exit 7", "maven_failed"), ("exit 0", "jars_incomplete")],
)
def test_a_maven_that_fails_leaves_no_jars_and_shows_its_log(
    body: str, code: str, script: Script, tmp_path: Path
) -> None:
    script("java", JAVA_17)
    directory = script("mvn", body)
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    said: list[str] = []
    with pytest.raises(LauncherError) as refused:
        prepare_kafka(progress=said.append, environment=environment)
    assert refused.value.code == code
    assert said == ["resolving Apache Kafka 4.1.2 from Maven (once, about 10 s)"]
    assert not (kafka_home(environment) / "lib").exists()
    if code == "maven_failed":
        assert "no route to the repository" in refused.value.message
        assert refused.value.retriable


def test_every_placeholder_of_the_settings_is_filled() -> None:
    text = server_properties(1111, 2222, Path("/data"))
    assert "@" not in text.replace("voters=1@127.0.0.1", "")
    assert "PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222" in text
    assert "log.dirs=/data" in text
