"""`walras clear` and `walras verify` as a user runs them: bytes in, bytes and exit codes out."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from walras_clearing import Market, clear
from walras_clearing.instance import market_to_json, result_to_json
from walras_clearing.testing import draw_market


def walras(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "walras", *args]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def a_market(seed: int) -> Market:
    return draw_market(random.Random(seed).randint, margin="pro_rata")


INSTANCE = b"""{"shared_supply_macc": 1000, "pools": [{"pool": "p", "own_supply_macc": 0}],
 "teams": [{"team": "t", "pool": "p", "bid_micro_per_hour": 5,
            "jobs": [{"job": "j", "size_macc": 4000, "limit_micro": null}]}]}"""
RESULT = {
    "reference_price_micro": 5,
    "pools": {"p": {"price_micro": 5, "purchased_macc": 1000, "allocated_macc": 1000}},
    "teams": {"t": {"allocated_macc": 1000, "opportunistic_macc": 0}},
    "certificate": {"pool_prices_below_micro": {"p": 4}, "surplus_nano_per_hour": {"p": 0}},
}


def test_clear_reads_an_instance_and_writes_its_result() -> None:
    done = walras("clear", stdin=INSTANCE)
    assert done.returncode == 0
    assert json.loads(done.stdout) == RESULT
    assert done.stdout.endswith(b"}\n")


def test_clear_warns_of_prices_with_too_few_ticks_and_of_no_others() -> None:
    done = walras("clear", stdin=INSTANCE)
    assert done.stderr.count(b"\n") == 1
    assert b"coarse_price" in done.stderr
    assert b"1 of 1 pool prices" in done.stderr
    fine = walras("clear", stdin=INSTANCE.replace(b'hour": 5', b'hour": 5000000'))
    assert (fine.returncode, fine.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("old", "new", "path", "reason"),
    [
        (b"1000", b"1000.0", b"$.shared_supply_macc", b"float"),
        (b"4000", b"true", b"$.teams[0].jobs[0].size_macc", b"boolean"),
        (b'"bid_micro_per_hour": 5', b'"bid_micro_per_hour": "5"', b"$.teams[0].bid", b"string"),
        (b'"own_supply_macc": 0', b'"own_supply_macc": NaN', b"$.pools[0].own_supply", b"NaN"),
        (b'"pool": "p", "bid', b'"pool": "q", "bid', b"$.teams[0].pool", b"no pool"),
        (b'"team": "t"', b'"team": "t", "team": "t"', b'$.teams[0]["team"]', b"twice"),
        (b'"team": "t"', b'"team": "t", "c\\u00e9\\nx": 1', b"$.teams[0][", b"unknown field"),
        (b"}]}]}", b"}]}", b"$: is not JSON", b"line 3"),
        (b"null", b"1000000000001", b"$.teams[0].jobs[0].limit_micro", b"1000000000000"),
        (b'"t"', b'"\xff"', b"$: is not UTF-8", b"byte"),
        (b"1000", b"[" * 50_000, b"$", b"nested"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_nothing_on_stdout(
    old: bytes, new: bytes, path: bytes, reason: bytes
) -> None:
    done = walras("clear", stdin=INSTANCE.replace(old, new, 1))
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(path)
    assert reason in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.isascii()


def test_lines_clears_each_line_on_its_own() -> None:
    markets = [a_market(seed) for seed in range(40)]
    lines = "\n".join(market_to_json(market) for market in markets) + "\n\n"
    done = walras("clear", "--lines", stdin=lines.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        result_to_json(clear(market)) for market in markets
    ]


def test_lines_stops_at_the_first_bad_line_and_names_it() -> None:
    good = market_to_json(a_market(1)).encode()
    done = walras("clear", "--lines", stdin=b"\n".join((good, b"", b'{"pools": 1}', good)))
    assert done.returncode == 2
    assert done.stdout.count(b"\n") == 1
    assert done.stderr.startswith(b"line 3: $.")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_ends_the_command_without_a_word() -> None:
    line = INSTANCE.replace(b"\n", b"") + b"\n"
    command = [sys.executable, "-m", "walras", "clear", "--lines"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as clearing:
        assert clearing.stdin is not None
        assert clearing.stdout is not None
        assert clearing.stderr is not None
        clearing.stdin.write(line)
        clearing.stdin.flush()
        assert json.loads(clearing.stdout.readline()) == RESULT
        clearing.stdout.close()
        clearing.stdin.write(line)
        clearing.stdin.close()
        assert (clearing.wait(60), clearing.stderr.read()) == (141, b"")


def test_the_margin_policy_is_an_option() -> None:
    teams = [
        {
            "team": name,
            "pool": "p",
            "bid_micro_per_hour": 10**6,
            "jobs": [{"job": "j", "size_macc": 60, "limit_micro": 5}],
        }
        for name in ("a", "b")
    ]
    pools = [{"pool": "p", "own_supply_macc": 0}]
    text = json.dumps({"shared_supply_macc": 60, "pools": pools, "teams": teams}).encode()
    got = {}
    for margin in ("pro_rata", "strict_order"):
        result = json.loads(walras("clear", "--margin", margin, stdin=text).stdout)
        got[margin] = [team["allocated_macc"] for team in result["teams"].values()]
    assert got == {"pro_rata": [30, 30], "strict_order": [60, 0]}


def files(folder: Path, instance: bytes, result: object) -> tuple[str, str]:
    (folder / "instance.json").write_bytes(instance)
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return str(folder / "instance.json"), str(folder / "result.json")


def test_verify_says_ok_when_the_certificate_holds(tmp_path: Path) -> None:
    done = walras("verify", *files(tmp_path, INSTANCE, RESULT))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ok\n", b"")
    done = walras("verify", "--json", *files(tmp_path, INSTANCE, RESULT))
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"ok": True, "violations": []}


def test_verify_reads_one_file_from_standard_input(tmp_path: Path) -> None:
    instance, result = files(tmp_path, INSTANCE, RESULT)
    piped = Path(result).read_bytes()
    assert walras("verify", instance, "-", stdin=piped).stdout == b"ok\n"
    assert walras("verify", "-", "-", stdin=piped).returncode == 2


def test_verify_lists_the_violations(tmp_path: Path) -> None:
    wrong = {**RESULT, "teams": {"t": {"allocated_macc": -1, "opportunistic_macc": 3}}}
    done = walras("verify", *files(tmp_path, INSTANCE, wrong))
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        '$.teams["t"].allocated_macc',
        '$.teams["t"].opportunistic_macc',
    ]
    done = walras("verify", "--json", *files(tmp_path, INSTANCE, wrong))
    assert done.returncode == 1
    outcome = json.loads(done.stdout)
    assert outcome["ok"] is False
    assert [violation["code"] for violation in outcome["violations"]] == [
        "allocated",
        "opportunistic",
    ]


def test_verify_names_the_file_that_cannot_be_read_or_parsed(tmp_path: Path) -> None:
    instance, result = files(tmp_path, INSTANCE, {**RESULT, "pools": 3})
    for args, start in (
        ((instance, result), b"result $.pools: must be an object"),
        ((result, instance), b"instance $"),
        ((instance, str(tmp_path / "none.json")), b"result "),
    ):
        done = walras("verify", *args)
        assert done.returncode == 2
        assert done.stdout == b""
        assert done.stderr.startswith(start)
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["clear", "verify"])
def test_help_explains_formats_and_exit_codes(command: str) -> None:
    done = walras(command, "--help")
    assert done.returncode == 0
    assert b"exit codes" in done.stdout
