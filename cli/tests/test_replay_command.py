"""`walras archive` and `walras replay` as they are called: exit codes, lines, JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from walras.__main__ import main
from walras.archive import Archive, RecordedCycle
from walras.archive.storing import store
from walras.archive.testing import CycleMaker
from walras_clearing.testing import FINE, draw_market

ALL = range(2**53)


def cycles_of(seed: int, count: int) -> list[RecordedCycle]:
    draw = Random(seed)
    makers = [CycleMaker(name, rows_a_part=3) for name in ("a100", "h100")]
    return [
        maker.cleared(draw_market(draw.randint, FINE), key=number % 4 == 0)
        for number in range(count)
        for maker in makers
    ]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive of eight cycles of two markets."""
    store(cycles_of(5, 8), Archive(tmp_path / "archive"), ALL)
    return tmp_path / "archive"


class Walras:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    def document(self, *words: str | Path, code: int = 0) -> dict[str, Any]:
        found, out, err = self.run(*words, "--json")
        assert (found, err) == (code, "")
        document: dict[str, Any] = json.loads(out)
        return document


@pytest.fixture
def walras(capsys: pytest.CaptureFixture[str]) -> Walras:
    return Walras(capsys)


def spoilt(root: Path, seed: int, wrong: Sequence[int]) -> Path:
    """Make an archive in which the reference price of some cycles of a100 is another."""
    cycles = cycles_of(seed, 8)
    for index, cycle in enumerate(cycles):
        if cycle.market == "a100" and cycle.cycle in wrong:
            assert cycle.head is not None
            head = cycle.head.model_copy(update={"reference_price_micro": 3})
            cycles[index] = RecordedCycle(cycle.market, cycle.cycle, head, cycle.frames)
    store(cycles, Archive(root), ALL)
    return root


def test_an_archive_replays_to_the_same(walras: Walras, archive: Path) -> None:
    code, out, err = walras.run("replay", archive)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "a100: 8 cycles replayed (0 to 7)",
        "h100: 8 cycles replayed (0 to 7)",
        "all is the same, bit for bit",
    ]
    document = walras.document("replay", archive, "--market", "h100", "--from", "2", "--to", "5")
    assert document["replayed"] == 4
    assert document["markets"] == {
        "h100": {
            "replayed": 4,
            "first_cycle": 2,
            "last_cycle": 5,
            "not_cleared": 0,
            "before_key_frame": 0,
            "cut": 0,
        }
    }
    assert (document["differences"], document["gaps"]) == ([], [])


def test_a_difference_ends_with_1_and_is_named(walras: Walras, tmp_path: Path) -> None:
    root = spoilt(tmp_path / "wrong", 5, [3])
    document = walras.document("replay", root, code=1)
    (found,) = document["differences"]
    assert (found["market"], found["cycle"], found["field"], found["recorded"]) == (
        *("a100", 3),
        *("reference_price_micro", 3),
    )
    code, out, _ = walras.run("replay", root)
    replayed = found["replayed"]
    assert code == 1
    assert (
        "market a100, cycle 3: reference_price_micro was recorded as 3, "
        f"replayed as {replayed}\n1 differences\n" in out
    )


def test_of_very_many_differences_the_first_are_kept_and_all_are_counted(
    walras: Walras, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walras.replay.replaying.DIFFERENCES_KEPT", 3)
    monkeypatch.setattr("walras.replay.display.DIFFERENCES_SHOWN", 2)
    root = spoilt(tmp_path / "wrong", 5, range(8))
    document = walras.document("replay", root, code=1)
    assert (len(document["differences"]), document["difference_count"]) == (3, 8)
    _, out, _ = walras.run("replay", root)
    assert out.splitlines()[-2:] == ["… (--json shows 3)", "8 differences"]


def test_a_missing_cycle_ends_with_2_and_can_be_skipped(walras: Walras, tmp_path: Path) -> None:
    cycles = [cycle for cycle in cycles_of(5, 8) if (cycle.market, cycle.cycle) != ("h100", 2)]
    store(cycles, Archive(tmp_path), ALL)
    code, out, err = walras.run("replay", tmp_path)
    assert (code, out) == (2, "")
    assert err == (
        "walras replay: market h100, cycle 2: it is missing "
        "(--skip-gaps goes on from the next key frame)\n"
    )
    document = walras.document("replay", tmp_path, "--skip-gaps")
    assert document["gaps"] == [{"market": "h100", "cycle": 2, "reason": "it is missing"}]
    assert document["markets"]["h100"]["replayed"] == 6
    assert document["markets"]["a100"]["replayed"] == 8


def test_a_policy_is_reported_in_tables_and_as_json(walras: Walras, archive: Path) -> None:
    words = ("--policy", "no_reserve", "--set", "shared_supply_ppm=500000", "--impact-every", "4")
    document = walras.document("replay", archive, *words)
    policy = document["policy"]
    assert (policy["name"], policy["impact_every"]) == ("no_reserve", 4)
    assert policy["settings"] == {"reserve_price_micro": 0, "shared_supply_ppm": 500_000}
    assert [row["market"] for row in policy["markets"]] == ["a100", "h100"]
    assert {row["impact_samples"] for row in policy["pools"]} <= {1, 2}
    assert policy["teams"]
    assert "." not in json.dumps([policy["markets"], policy["pools"], policy["teams"]])
    code, out, err = walras.run("replay", archive, *words)
    assert (code, err) == (0, "")
    for words_shown in ("one cycle in 4", "Markets: ", "Pools: ", "whose payment changes most"):
        assert words_shown in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--policy", "fair"], "no policy 'fair'"),
        (["--set", "bid_ppm.nobody=5"], "no replayed market has a pool nobody"),
        (["--set", "own_supply_ppm=1000000000", "--set", "margin=x"], "margin is one of"),
        (["--market", "b200"], "no market b200: there are a100, h100"),
        (["--from", "9"], "nothing to replay"),
        (["--from", "5", "--to", "4"], "nothing to replay"),
    ],
)
def test_what_cannot_be_replayed_ends_with_2_in_one_line(
    walras: Walras, archive: Path, words: list[str], reason: str
) -> None:
    code, out, err = walras.run("replay", archive, *words)
    assert (code, out) == (2, "")
    assert err.startswith("walras replay: ")
    assert reason in err
    assert err.count("\n") == 1


def test_a_market_that_a_log_does_not_have_is_named(
    walras: Walras, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walras.replay.sources.cycles_of_log", lambda *_: iter(cycles_of(5, 2)))
    words = ("replay", "kafka:nowhere:1", "--market", "h100")
    assert walras.document(*words)["replayed"] == 2
    code, out, err = walras.run(*words, "--market", "b200")
    assert (code, out) == (2, "")
    assert "kafka:nowhere:1: no cycle of market b200 is there" in err


def test_a_directory_without_cycles_is_named(walras: Walras, tmp_path: Path) -> None:
    code, _, err = walras.run("replay", tmp_path / "nowhere")
    assert code == 2
    assert "no archive of cycles is there" in err


def test_no_broker_is_bad_input_for_both(
    walras: Walras, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WALRAS_KAFKA_BOOTSTRAP", raising=False)
    out = tmp_path / "archive"
    assert walras.run("archive", "--out", out) == (
        *(2, ""),
        "walras archive: name a broker with --bootstrap\n",
    )
    code, _, err = walras.run("archive", "--bootstrap", "127.0.0.1:1", "--out", out)
    assert (code, "the broker 127.0.0.1:1 does not answer" in err) == (2, True)
    code, _, err = walras.run("replay", "kafka:127.0.0.1:1")
    assert (code, "does not answer" in err) == (2, True)
    code, _, err = walras.run("replay", "kafka:127.0.0.1:x")
    assert (code, "'127.0.0.1:x' is no address of a broker" in err) == (2, True)


@pytest.mark.parametrize("command", ["archive", "replay"])
def test_a_cycle_that_is_no_number_is_refused(walras: Walras, command: str, archive: Path) -> None:
    words = [command, str(archive)] if command == "replay" else [command]
    for wrong in ("-1", "x", str(2**53)):
        code, _, err = walras.run(*words, "--from", wrong)
        assert (code, "--from" in err) == (2, True)
