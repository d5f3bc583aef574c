"""`walras demo-nodes`: what it refuses, and how."""

from pathlib import Path

from cli.tests.demo_nodes_story import SCENARIO_FILE
from cli.tests.walras_process import walras


def test_the_command_names_its_default_scenario_and_its_exit_codes(tmp_path: Path) -> None:
    done = walras(tmp_path, "demo-nodes", "--help")
    assert done.returncode == 0
    assert "scenarios/price_spike.toml" in done.stdout
    assert "130 interrupted" in done.stdout
    assert SCENARIO_FILE.is_file()


def test_a_folder_that_holds_other_things_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").touch()
    done = walras(tmp_path, "demo-nodes", "--out", "mine")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("walras demo-nodes: ")
    assert "name another folder with --out" in line
    assert done.stdout == ""


def test_a_scenario_that_is_not_there_or_wrong_is_refused(tmp_path: Path) -> None:
    done = walras(tmp_path, "demo-nodes", "--scenario", "none.toml")
    assert done.returncode == 2
    assert done.stderr == (
        "walras demo-nodes: there is no file none.toml; name a scenario with --scenario\n"
    )
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(SCENARIO_FILE.read_text("utf-8").replace("[nodes]", "[knots]"), "utf-8")
    done = walras(tmp_path, "demo-nodes", "--scenario", "wrong.toml")
    assert done.returncode == 2
    assert "wrong.toml: $.nodes: Field required" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_broker_that_does_not_answer_is_named_with_what_to_do(tmp_path: Path) -> None:
    done = walras(tmp_path, "demo-nodes", WALRAS_KAFKA_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == 1
    assert "walras demo-nodes: " in done.stderr
    assert "unset WALRAS_KAFKA_BOOTSTRAP" in done.stderr
    assert "Traceback" not in done.stderr
