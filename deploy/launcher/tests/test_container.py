"""The Docker rung: its refusals everywhere, its real servers where an engine answers."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_launcher.container import (
    ContainerBroker,
    ContainerRedis,
    docker_program,
    kafka_settings,
    run_arguments,
)
from walras_launcher.errors import LauncherError
from walras_launcher.wire import kafka_answers, redis_answers

Script = Callable[[str, str], Path]


def test_without_a_client_the_rung_says_so(tmp_path: Path) -> None:
    with pytest.raises(LauncherError) as refused:
        docker_program({"PATH": str(tmp_path)})
    assert refused.value.code == "docker_missing"


@pytest.mark.parametrize(
    "body",
    ["echo 'Cannot connect to the Docker daemon.' >&2; exit 1", "exit 0"],
    ids=["refused", "no version"],
)
def test_a_client_without_an_engine_is_no_docker(body: str, script: Script) -> None:
    with pytest.raises(LauncherError) as refused:
        docker_program({"PATH": str(script("docker", body))})
    assert refused.value.code == "docker_silent"
    assert "no engine answers" in refused.value.message


def test_a_client_whose_engine_answers_is_taken(script: Script) -> None:
    directory = script("docker", "echo 28.2.2")
    assert docker_program({"PATH": str(directory)}) == str(directory / "docker")


def test_the_container_is_bound_to_loopback_and_names_its_owner() -> None:
    words = run_arguments("image:1", "name", 4000, 9092, {"A": "1", "B": "x,y"})
    assert shlex.join(words) == (
        f"run --detach --name name --label walras.launcher.owner={os.getpid()} "
        "--publish 127.0.0.1:4000:9092 --env A=1 --env B=x,y image:1"
    )


def test_the_broker_in_the_container_reaches_itself_by_a_listener_of_its_own() -> None:
    settings = kafka_settings(4000)
    advertised = dict(
        word.split("://") for word in settings["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    assert advertised["HOST"] == "127.0.0.1:4000"
    assert advertised[settings["KAFKA_INTER_BROKER_LISTENER_NAME"]].startswith("localhost:")


def test_a_container_that_cannot_be_made_is_removed_and_the_engines_words_are_kept(
    script: Script, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    body = f'echo "$1" >> {calls}\n[ "$1" = rm ] || {{ echo no such image; exit 125; }}'
    docker = script("docker", body) / "docker"
    with pytest.raises(LauncherError) as refused:
        ContainerBroker(str(docker))
    assert refused.value.code == "docker_failed"
    assert "no such image" in refused.value.message
    assert calls.read_text("utf-8").split() == ["run", "rm"]


@pytest.mark.docker
def test_kafka_in_a_container_answers_survives_a_kill_and_is_removed(docker_engine: str) -> None:
    with ContainerBroker(docker_engine) as broker:
        assert kafka_answers(broker.bootstrap)
        place = broker.bootstrap
        broker.kill()
        assert not kafka_answers(place)
        broker.restart()
        assert broker.bootstrap == place
        assert kafka_answers(place)
    assert not kafka_answers(place)


@pytest.mark.docker
def test_redis_in_a_container_answers_and_is_removed(docker_engine: str) -> None:
    with ContainerRedis(docker_engine) as server:
        assert redis_answers(server.url)
    assert not redis_answers(server.url)
