import os
import socket
from pathlib import Path

import pytest

from walras_launcher import cache
from walras_launcher.cache import RunDirectory, cache_root, checkout, sweep
from walras_launcher.errors import LauncherError, log_tail
from walras_launcher.ports import LOOPBACK, PortReservation


def test_reservations_never_share_a_port() -> None:
    reservations = [PortReservation() for _ in range(200)]
    assert len({reservation.port for reservation in reservations}) == 200
    for reservation in reservations:
        reservation.release()


def test_a_server_can_listen_on_a_reserved_port_and_again_after_it_closed() -> None:
    with PortReservation() as reservation:
        for _ in range(2):
            address = (LOOPBACK, reservation.port)
            with socket.create_server(address) as server, socket.create_connection(address):
                server.accept()[0].close()


def test_a_port_that_is_taken_is_refused_with_a_code() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, pytest.raises(LauncherError) as refused:
        PortReservation(server.getsockname()[1])
    assert refused.value.code == "port_taken"
    assert refused.value.retriable


def test_the_cache_lies_in_the_checkout_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    # No checkout above: the one that this package is installed from.
    assert checkout(inner) == checkout(Path(cache.__file__))
    (tmp_path / "uv.lock").touch()
    assert checkout(inner) == tmp_path
    monkeypatch.chdir(inner)
    assert cache_root({}) == tmp_path / ".cache"
    assert cache_root({"WALRAS_CACHE_DIR": str(tmp_path / "c")}) == tmp_path / "c"


def test_a_sweep_spares_the_living_and_takes_the_dead(tmp_path: Path) -> None:
    living = RunDirectory(None, tmp_path, "x-")
    dead = RunDirectory(None, tmp_path, "x-")
    assert dead._lock is not None
    os.close(dead._lock)  # what the kernel does when the owner is killed
    (tmp_path / "not-ours").mkdir()
    assert sweep(tmp_path) == [dead.path]
    assert living.path.is_dir()
    assert (tmp_path / "not-ours").is_dir()
    living.close()
    assert not living.path.exists()


def test_a_log_tail_of_a_missing_log_is_a_note(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "absent").startswith("(no log")
    path = tmp_path / "log"
    path.write_text("".join(f"{number}\n" for number in range(100)), "utf-8")
    assert log_tail(path, 2) == "98\n99"


def test_a_place_that_cannot_be_written_is_refused_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, code in ((tmp_path / "file" / "x", "directory_unusable"), (None, "cache_unwritable")):
        with pytest.raises(LauncherError) as refused:
            RunDirectory(path, tmp_path / "file", "x-")
        assert refused.value.code == code
