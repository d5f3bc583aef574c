import os
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_launcher.errors import LauncherError
from walras_launcher.ladder import open_broker, open_redis, plan_broker, plan_redis
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.redis import RedisServer, redis_in_wheel

Script = Callable[[str, str], Path]

SILENT_DOCKER = "echo 'Cannot connect to the Docker daemon.' >&2; exit 1"


@pytest.mark.broker
def test_a_named_broker_is_used_never_stopped_and_cannot_be_killed(own_broker: OwnBroker) -> None:
    real = own_broker()
    environment = {**os.environ, "WALRAS_KAFKA_BOOTSTRAP": real.bootstrap}
    with open_broker(environment=environment) as named:
        assert named.bootstrap == real.bootstrap
        assert named.pid is None
        assert "WALRAS_KAFKA_BOOTSTRAP" in named.describe()
        assert named.rungs[-1].taken
        for forbidden in (named.kill, named.restart):
            with pytest.raises(LauncherError) as refused:
                forbidden()
            assert refused.value.code == "not_owned"
    assert real.running
    assert plan_broker(environment) == named.describe()


@pytest.mark.broker
def test_a_caller_that_means_to_kill_passes_over_the_named_broker(own_broker: OwnBroker) -> None:
    real = own_broker()
    environment = {**os.environ, "WALRAS_KAFKA_BOOTSTRAP": real.bootstrap}
    with open_broker(own=True, environment=environment) as broker:
        assert broker.bootstrap != real.bootstrap
        assert broker.pid is not None
        assert broker.rungs[0].reason.endswith("a server of its own was asked for")


@pytest.mark.broker
def test_a_named_redis_is_used_and_its_password_is_never_said(
    own_redis: Callable[[], RedisServer],
) -> None:
    real = own_redis()
    with open_redis(environment={"WALRAS_REDIS_URL": real.url}) as named:
        assert named.url == real.url
        assert named.pid is None
    assert real.running
    secret = {"WALRAS_REDIS_URL": "redis://me:secret@localhost:1/0"}
    assert "secret" not in plan_redis(secret)
    with pytest.raises(LauncherError) as refused:
        open_redis(environment=secret)
    assert refused.value.code == "redis_silent"
    assert "secret" not in str(refused.value)


def test_a_named_broker_that_is_silent_is_an_error_and_not_a_reason_for_another() -> None:
    environment = {**os.environ, "WALRAS_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    with pytest.raises(LauncherError) as refused:
        open_broker(environment=environment)
    assert refused.value.code == "bootstrap_silent"
    assert "127.0.0.1:1" in refused.value.message


def test_without_any_rung_the_error_gives_the_reason_of_each(
    script: Script, tmp_path: Path
) -> None:
    directory = script("docker", SILENT_DOCKER)
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    with pytest.raises(LauncherError) as refused:
        open_broker(environment=environment)
    assert refused.value.code == "no_broker"
    for reason in (
        "named: WALRAS_KAFKA_BOOTSTRAP: it is not set",
        "maven: There is no Java",
        "docker: The docker client is there, but no engine answers it (Cannot connect",
    ):
        assert reason in refused.value.message
    plan = plan_broker(environment)
    assert plan.startswith("none: There is no Java on this machine. The docker client is there")


@pytest.mark.broker
def test_a_redis_on_path_goes_before_the_one_in_the_wheel(script: Script, tmp_path: Path) -> None:
    directory = script("redis-server", f'exec "{redis_in_wheel().path}" "$@"')
    environment = {"PATH": f"{directory}:{os.environ['PATH']}", "WALRAS_CACHE_DIR": str(tmp_path)}
    with open_redis(environment=environment) as server:
        assert isinstance(server, RedisServer)
        assert server.describe().endswith("from PATH")
        assert [rung.name for rung in server.rungs] == ["named", "path"]
        assert server.directory.parent == tmp_path / "run"


@pytest.mark.broker
def test_a_redis_on_path_that_does_not_run_falls_to_the_wheel(
    script: Script, tmp_path: Path
) -> None:
    directory = script("redis-server", "exit 1")
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path)}
    with open_redis(environment=environment) as server:
        assert [(rung.name, rung.taken) for rung in server.rungs] == [
            ("named", False),
            ("path", False),
            ("wheel", True),
        ]
        assert "does not say which version" in server.rungs[1].reason


def test_the_plan_names_what_the_ladder_would_give_without_starting_it(
    script: Script, tmp_path: Path
) -> None:
    script("java", "echo 'openjdk version \"17.0.1\"' >&2")
    directory = script("mvn", "exit 1")
    environment = {"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")}
    expected = "Apache Kafka 4.1.2 from Maven jars, Java 17.0.1 (to be fetched first)"
    assert plan_broker(environment) == expected
    assert not (tmp_path / "cache").exists()
