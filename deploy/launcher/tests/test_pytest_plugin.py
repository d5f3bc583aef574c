import os
import subprocess
import sys
from pathlib import Path

import pytest

from walras_launcher.cache import cache_root
from walras_launcher.pytest_plugin import required

NEEDS_BROKER = """
def test_needs_a_broker(kafka_broker):
    assert kafka_broker.bootstrap

def test_needs_a_broker_to_kill(own_broker):
    broker = own_broker()
    broker.kill()
    broker.restart()
"""
NEEDS_REDIS = "def test_needs_redis(redis_server):\n    assert redis_server.url\n"
NEEDS_DOCKER = "def test_needs_docker(docker_engine):\n    assert docker_engine\n"


def _pytest(
    directory: Path, test: str, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    (directory / "test_case.py").write_text(test, "utf-8")
    (directory / "pytest.ini").write_text("[pytest]\n", "utf-8")
    line = [sys.executable, "-m", "pytest", "-rs", "-p", "walras_launcher.pytest_plugin"]
    return subprocess.run(
        [*line, "-p", "no:asyncio", "-p", "no:cacheprovider", "test_case.py"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _bare(directory: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(directory), "WALRAS_CACHE_DIR": str(directory / "cache"), **more}


@pytest.mark.broker
def test_the_fixtures_give_real_servers_and_the_report_names_them(tmp_path: Path) -> None:
    environment = {**os.environ, "WALRAS_CACHE_DIR": str(cache_root())}
    done = _pytest(tmp_path, NEEDS_BROKER + NEEDS_REDIS, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    for line in ("walras broker: ", "walras redis: ", "walras broker used: ", "walras redis used:"):
        assert line in done.stdout


@pytest.mark.parametrize(("leg", "test"), [("broker", NEEDS_BROKER), ("docker", NEEDS_DOCKER)])
def test_a_leg_that_cannot_run_is_skipped_locally_with_its_reason(
    leg: str, test: str, tmp_path: Path
) -> None:
    done = _pytest(tmp_path, test, _bare(tmp_path))
    assert done.returncode == 0, done.stdout
    assert f"the {leg} leg cannot run here: [" in done.stdout
    assert "failed" not in done.stdout


@pytest.mark.parametrize(("leg", "test"), [("broker", NEEDS_BROKER), ("docker", NEEDS_DOCKER)])
@pytest.mark.parametrize("how", ["CI", "WALRAS_REQUIRE"])
def test_a_leg_that_is_required_fails_where_it_cannot_run(
    how: str, leg: str, test: str, tmp_path: Path
) -> None:
    value = "true" if how == "CI" else f"redis,{leg}"
    done = _pytest(tmp_path, test, _bare(tmp_path, **{how: value}))
    assert done.returncode == 1, done.stdout
    assert f"the {leg} leg is required and cannot run: [" in done.stdout
    assert "skipped" not in done.stdout


def test_a_waived_leg_is_skipped_in_ci_and_the_header_says_so(tmp_path: Path) -> None:
    done = _pytest(tmp_path, NEEDS_DOCKER, _bare(tmp_path, CI="true", WALRAS_WAIVE="docker"))
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert "walras legs waived by WALRAS_WAIVE: docker" in done.stdout


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"CI": "true"}, True),
        ({"CI": "false"}, False),
        ({"CI": ""}, False),
        ({"WALRAS_REQUIRE": "broker"}, True),
        ({"WALRAS_REQUIRE": "redis, broker"}, True),
        ({"WALRAS_REQUIRE": "redis"}, False),
        ({"CI": "true", "WALRAS_WAIVE": "docker"}, True),
        ({"CI": "true", "WALRAS_REQUIRE": "broker", "WALRAS_WAIVE": "broker"}, False),
    ],
)
def test_a_leg_is_required_by_ci_or_by_name(environment: dict[str, str], expected: bool) -> None:
    assert required("broker", environment) is expected
