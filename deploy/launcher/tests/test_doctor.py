import os
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from walras_launcher import doctor
from walras_launcher.doctor import Finding, State, inspect_machine, ready

Script = Callable[[str, str], Path]


def _by_code(environment: dict[str, str]) -> dict[str, Finding]:
    findings = inspect_machine(environment)
    assert len({finding.code for finding in findings}) == len(findings)
    return {finding.code: finding for finding in findings}


def test_a_bare_machine_lacks_all_and_every_lack_has_a_remedy(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    found = _by_code({"PATH": str(tmp_path), "WALRAS_CACHE_DIR": str(cache)})
    for code in ("c_compiler", "java", "maven", "docker_engine", "redis_on_path"):
        assert found[code].state is State.MISSING, code
    for finding in found.values():
        assert finding.detail
        assert bool(finding.remedy) is (finding.state is not State.FOUND)
    assert found["broker"].state is State.MISSING
    assert found["broker"].needed
    assert not ready(list(found.values()))
    assert not cache.exists()


def test_java_and_maven_together_make_a_broker(script: Script, tmp_path: Path) -> None:
    script("java", "echo 'openjdk version \"21.0.2\"' >&2")
    directory = script("mvn", "exit 1")
    found = _by_code({"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path / "cache")})
    assert found["java"].state is State.FOUND
    assert found["broker"].state is State.FOUND
    assert found["kafka_jars"].state is State.MISSING
    assert not found["kafka_jars"].needed


def test_an_old_java_is_unusable_and_not_missing(script: Script, tmp_path: Path) -> None:
    directory = script("java", "echo 'openjdk version \"11.0.2\"' >&2")
    found = _by_code({"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path)})
    assert found["java"].state is State.UNUSABLE
    assert found["broker"].state is State.MISSING


def test_a_docker_client_without_an_engine_is_unusable(script: Script, tmp_path: Path) -> None:
    directory = script("docker", "exit 1")
    found = _by_code({"PATH": str(directory), "WALRAS_CACHE_DIR": str(tmp_path)})
    assert found["docker_engine"].state is State.UNUSABLE


@pytest.mark.parametrize(
    ("variable", "value"),
    [("WALRAS_KAFKA_BOOTSTRAP", "127.0.0.1:1"), ("WALRAS_REDIS_URL", "redis://127.0.0.1:1/0")],
)
def test_a_named_server_that_is_silent_is_a_needed_thing_that_lacks(
    variable: str, value: str
) -> None:
    found = _by_code({**os.environ, variable: value})
    finding = found[variable.lower()]
    assert (finding.state, finding.needed) == (State.UNUSABLE, True)
    assert not ready(list(found.values()))


def test_the_kernel_is_found_by_its_file_and_not_by_importing_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "not_compiled_yet"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(doctor, "KERNEL_PACKAGE", "not_compiled_yet")
    kernel = _by_code(dict(os.environ))["clearing_kernel"]
    assert (kernel.state, kernel.needed) == (State.MISSING, True)
    (package / "_kernel.cpython-39-some-other.so").touch()
    assert _by_code(dict(os.environ))["clearing_kernel"].state is State.MISSING
    (package / f"_kernel{EXTENSION_SUFFIXES[0]}").touch()
    assert _by_code(dict(os.environ))["clearing_kernel"].state is State.FOUND
    monkeypatch.setattr(doctor, "KERNEL_PACKAGE", "not_installed_at_all")
    assert _by_code(dict(os.environ))["clearing_kernel"].state is State.MISSING


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MINIMUM_FREE_BYTES", 1 << 62)
    assert _by_code(dict(os.environ))["disk_space"].state is State.UNUSABLE
