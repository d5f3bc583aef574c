"""What a read of a device says: held, free, faulty; what cannot be read is never free."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from walras_node_agent.host.devices import Reading, SimulatedDevices
from walras_node_agent.host.nvml import NvmlDevices
from walras_runtime.settings import SettingsError

STAND_INS = Path(__file__).with_name("stand_ins")


def test_a_simulated_device_is_held_as_long_as_the_process_lives(tmp_path: Path) -> None:
    devices = SimulatedDevices(tmp_path, 2)
    assert devices.read(0) == Reading()
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / "0" / str(process.pid)).touch()
        assert devices.read(0).holders == (f"process {process.pid} (sleep)",)
        process.kill()
    assert devices.read(0).holders == ()
    assert devices.read(1) == Reading()


def test_a_faulty_device_that_nobody_holds_may_be_freed_and_not_used(tmp_path: Path) -> None:
    devices = SimulatedDevices(tmp_path, 1)
    (tmp_path / "0" / "unhealthy").write_text("ECC errors\n", "utf-8")
    (tmp_path / "0" / "busy_ppm").write_text("7", "utf-8")

    assert devices.read(0) == Reading((), "ECC errors", 7)


def test_a_device_that_cannot_be_read_is_held(tmp_path: Path) -> None:
    devices = SimulatedDevices(tmp_path, 1)
    (tmp_path / "0").rmdir()
    assert devices.read(0).holders


def test_nvml_is_asked_for_processes_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(STAND_INS))
    devices = NvmlDevices(free_mib=100)
    library = sys.modules["pynvml"]
    try:
        assert devices.count == 2
        assert devices.read(0) == Reading(busy_ppm=0)
        assert devices.read(1).busy_ppm == 970_000
        assert devices.read(1).holders[0].startswith("process 1 ")
        library.__dict__["pids"][1].clear()
        assert devices.read(1).holders == ("40000 MiB of nobody that the driver names",)
        library.__dict__["unmeasured"].add(0)
        assert devices.read(0) == Reading()
        library.__dict__["broken"].add(0)
        assert devices.read(0).holders == ("not readable: GPU is lost",)
        assert devices.read(0).fault
        assert devices.variables((1, 0))["CUDA_VISIBLE_DEVICES"] == "1,0"
    finally:
        del sys.modules["pynvml"]


def test_without_the_library_the_port_is_refused_in_words() -> None:
    probe = (
        "import sys; sys.modules['pynvml'] = None\n"
        "from walras_node_agent.host.nvml import NvmlDevices\n"
        "NvmlDevices(1)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ended = subprocess.run(
        [sys.executable, "-c", probe], env=environment, capture_output=True, check=False
    )
    assert SettingsError.__name__.encode() in ended.stderr
    assert b"nvidia-ml-py" in ended.stderr


def test_the_library_is_not_imported_unless_it_is_asked_for() -> None:
    probe = "import sys, walras_node_agent.host.opening as o; sys.exit('pynvml' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ended = subprocess.run([sys.executable, "-c", probe], env=environment, check=False)
    assert ended.returncode == 0
