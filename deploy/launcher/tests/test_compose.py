"""The compose file agrees with the launcher, the workspace and the Dockerfile.

It is read by a small reader of the part of YAML that it uses: mappings by indentation, lists of
scalars, flow lists that are JSON, ``{}``, anchors on mappings and merge keys. Anything else is
refused, so the file cannot drift out of what is checked.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from walras_contracts.topics import load_topics
from walras_launcher.container import kafka_settings
from walras_launcher.preparation import server_properties
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.versions import KAFKA_IMAGE, KAFKA_VERSION, REDIS_IMAGE

ROOT = Path(__file__).resolve().parents[3]
# What depends on the place: addresses, directories, and threads sized for a shared machine.
PLACE = {
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "log.dirs",
    "num.network.threads",
    "num.io.threads",
}

_KEY = re.compile(r"(?P<key>[A-Za-z0-9_.<-]+):(?: (?P<value>.+))?")


class ComposeSyntaxError(ValueError):
    """The file uses YAML that this reader does not know."""


def read(text: str) -> dict[str, Any]:
    """Return the document as plain mappings, lists and strings."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        if "\t" in raw:
            raise ComposeSyntaxError(f"line {number}: a tab")
        if raw.strip() and not raw.lstrip().startswith("#"):
            lines.append((number, len(raw) - len(raw.lstrip()), raw.strip()))
    document, rest = _mapping(lines, 0, {})
    if rest:
        raise ComposeSyntaxError(f"line {rest[0][0]}: not part of any mapping")
    return document


_Lines = list[tuple[int, int, str]]


def _mapping(
    lines: _Lines, indent: int, anchors: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], _Lines]:
    result: dict[str, Any] = {}
    while lines and lines[0][1] == indent and not lines[0][2].startswith("- "):
        number, _, content = lines[0]
        match = _KEY.fullmatch(content)
        if match is None:
            raise ComposeSyntaxError(f"line {number}: {content!r} is no key")
        key, value = match["key"], match["value"]
        lines = lines[1:]
        if key == "<<":
            result = {**anchors[(value or "").removeprefix("*")], **result}
            continue
        if key in result and not value and key not in {"build", "environment"}:
            raise ComposeSyntaxError(f"line {number}: {key} overrides a merged block")
        if value is None or value.startswith("&"):
            block, lines = _block(lines, indent, anchors)
            if value is not None:
                anchors[value.removeprefix("&")] = block
            result[key] = block
        else:
            result[key] = _scalar(value, number)
    return result, lines


def _block(lines: _Lines, indent: int, anchors: dict[str, dict[str, Any]]) -> tuple[Any, _Lines]:
    if not lines or lines[0][1] <= indent:
        raise ComposeSyntaxError(f"a key at indent {indent} has no value")
    inner = lines[0][1]
    if not lines[0][2].startswith("- "):
        return _mapping(lines, inner, anchors)
    items = []
    while lines and lines[0][1] == inner and lines[0][2].startswith("- "):
        items.append(_scalar(lines[0][2].removeprefix("- "), lines[0][0]))
        lines = lines[1:]
    return items, lines


def _scalar(value: str, number: int) -> Any:
    if value == "{}":
        return {}
    if value[0] in '["':
        return json.loads(value)
    if value[0] in "'{|>*&!%@`" or " #" in value or ": " in value:
        raise ComposeSyntaxError(f"line {number}: {value!r} is not read here")
    return {"true": True, "false": False}.get(value, value)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read((ROOT / "docker-compose.yml").read_text("utf-8"))


def _expected_environment() -> dict[str, str]:
    lines = server_properties(1, 2, Path("/data")).splitlines()
    pairs = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {
        f"KAFKA_{key.upper().replace('.', '_')}": value
        for key, value in pairs.items()
        if key not in PLACE
    }


def test_the_pinned_kafka_is_the_same_everywhere(compose: dict[str, Any]) -> None:
    assert compose["services"]["kafka"]["image"] == KAFKA_IMAGE == f"apache/kafka:{KAFKA_VERSION}"
    data = ROOT / "deploy/launcher/src/walras_launcher/data"
    pom = (data / "pom.xml").read_text("utf-8")
    assert re.search(rf"<artifactId>kafka_2\.13</artifactId>\s*<version>{KAFKA_VERSION}<", pom)


def test_the_pinned_redis_is_the_same_everywhere(compose: dict[str, Any]) -> None:
    assert compose["services"]["redis"]["image"] == REDIS_IMAGE
    assert re.fullmatch(r"redis:7\.4\.\d+-alpine", REDIS_IMAGE)


@pytest.mark.parametrize("where", ["compose", "container"])
def test_the_image_gets_the_settings_of_the_launchers_template(
    where: str, compose: dict[str, Any]
) -> None:
    in_compose = compose["services"]["kafka"]["environment"]
    actual = in_compose if where == "compose" else kafka_settings(4000)
    expected = _expected_environment()
    assert len(expected) >= 20
    assert {key: actual.get(key) for key in expected} == expected


def test_every_service_of_the_workspace_has_its_place(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for directory in sorted((ROOT / "services").iterdir()):
        if not (directory / "pyproject.toml").is_file():
            continue
        project = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))["project"]
        service = services[directory.name]
        assert service["build"]["args"]["SERVICE"] == project["name"]
        assert project["name"].removesuffix("-service") in project["scripts"]
        assert service["environment"]["WALRAS_KAFKA_BOOTSTRAP"] == "kafka:9092"
        conditions = {name: how["condition"] for name, how in service["depends_on"].items()}
        assert conditions == {
            "kafka": "service_healthy",
            "redis": "service_healthy",
            "topics": "service_completed_successfully",
        }


def settings_of(name: str, service: dict[str, Any], patch: pytest.MonkeyPatch) -> Any:
    """Return the settings that a service has in its container."""
    module = "walras_clearing_service" if name == "clearing" else f"walras_{name}"
    with patch.context() as inside:
        for variable in [v for v in os.environ if v.startswith("WALRAS_")]:
            inside.delenv(variable)
        for variable, value in service["environment"].items():
            inside.setenv(variable, value)
        return import_module(f"{module}.settings").Settings.read()


def running(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the services of the workspace that `docker compose up` starts without being told."""
    built = {name: s for name, s in compose["services"].items() if "build" in s}
    return {n: s for n, s in built.items() if n != "topics" and "profiles" not in s}


def unwritten(names: Collection[str]) -> list[str]:
    """Return the topics for whose barriers or events nobody among the services is there."""
    topics = load_topics().values()
    writers = {t.name: {t.producer} for t in topics if t.barriers != "none"}
    for topic in topics:
        if topic.barriers == "outside":
            writers[topic.name].add("ticker")
    return sorted(
        f"{topic}: {writer}"
        for topic, needed in writers.items()
        for writer in needed - {"outside", *names}
    )


def test_no_two_servers_of_a_container_share_a_port(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = []
    for name, service in running(compose).items():
        settings = settings_of(name, service, monkeypatch)
        ports = [settings.health_port]
        if hasattr(settings, "http_port"):
            ports.append(settings.http_port)
            # Nobody outside of a container reaches its loopback.
            assert settings.http_host == "0.0.0.0"
            assert service["ports"] == [f"127.0.0.1:{settings.http_port}:{settings.http_port}"]
        assert all(port > 0 for port in ports), name
        assert len(set(ports)) == len(ports), name
        published += [port.rpartition(":")[0] for port in service.get("ports", [])]
    published += [
        p.rpartition(":")[0] for n in ("kafka", "redis") for p in compose["services"][n]["ports"]
    ]
    assert len(set(published)) == len(published) == 3


def test_all_services_count_the_same_barriers_and_cycles(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = {n: settings_of(n, s, monkeypatch) for n, s in running(compose).items()}
    assert {settings.barrier_interval_ms() for settings in live.values()} == {5_000}
    assert {settings.barriers_per_cycle() for settings in live.values()} == {6}
    assert {settings.mode for settings in live.values()} == {"live"}


def test_every_topic_with_barriers_has_a_writer_that_runs(compose: dict[str, Any]) -> None:
    names = set(running(compose))
    assert unwritten(names) == []
    assert "fleet.done: node_agent" in unwritten(names - {"node_agent"})
    assert "usage: node_agent" in unwritten(names - {"node_agent"})
    assert len(unwritten(names - {"ticker"})) > 5


def test_every_volume_is_used(compose: dict[str, Any]) -> None:
    used = {v.partition(":")[0] for s in compose["services"].values() for v in s.get("volumes", [])}
    assert used == set(compose["volumes"])


def test_what_is_depended_upon_exists_and_has_a_health_check(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in services
            if how["condition"] == "service_healthy":
                assert services[name]["healthcheck"]["test"][0] == "CMD"
        build = service.get("build")
        assert bool(build) is not bool(service.get("image"))
        if build:
            assert (ROOT / build["dockerfile"]).is_file()
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_every_file_that_the_image_copies_is_in_the_checkout() -> None:
    text = (ROOT / "deploy/docker/service.Dockerfile").read_text("utf-8")
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for sources in copies:
        for source in sources.split():
            assert (ROOT / source).exists(), source
    assert "--package" in text
    assert "--locked --no-dev --no-editable" in text
    required = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]
    assert f"uv{required['required-version']}" in text


@pytest.mark.parametrize(
    "text",
    [
        "a:\n  - b: c\n",
        "a: 'b'\n",
        "a: b # c\n",
        "a: |\n  b\n",
        "a:\n",
        "a: b\n    c: d\n",
        "\ta: b",
    ],
)
def test_the_reader_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(ComposeSyntaxError):
        read(text)


@pytest.mark.docker
def test_docker_itself_accepts_the_file(docker_engine: str) -> None:
    line = [docker_engine, "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.broker
def test_the_topics_service_makes_all_topics_once(own_broker: OwnBroker) -> None:
    broker = own_broker()
    environment = {**os.environ, "WALRAS_KAFKA_BOOTSTRAP": broker.bootstrap}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(ROOT / "deploy/docker/create_topics.py")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(int(done.stdout.split()[0]))
    assert said[0] > 10
    assert said[1] == 0


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_passes_only_on_200(status: int | None, code: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def check() -> int | None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if status is None:
            server.close()
            await server.wait_closed()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(ROOT / "deploy/docker/check_health.py"),
            env={"WALRAS_HEALTH_PORT": str(port)},
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            return await asyncio.wait_for(process.wait(), 30)
        finally:
            server.close()

    assert asyncio.run(check()) == code
