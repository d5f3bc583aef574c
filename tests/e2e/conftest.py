"""Runs of the demo, real processes on a real broker; the undisturbed one is shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from walras.demo.run import DemoOptions, run_demo

SCENARIO = Path(__file__).parents[2] / "scenarios" / "itp_week.toml"
HOURS = 1
SEED = 1

RunMarket = Callable[..., dict[str, Any]]


@pytest.fixture
def run_market(tmp_path: Path) -> RunMarket:
    """Run the market for an hour with whatever a test does to it; returns the report."""

    def run(**options: Any) -> dict[str, Any]:
        return run_demo(
            DemoOptions(
                SCENARIO,
                tmp_path / "run",
                hours=HOURS,
                seed=SEED,
                board=False,
                own_servers=True,
                **options,
            ),
            print,
        )

    return run


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the report of an hour in which nothing is disturbed."""
    return run_demo(
        DemoOptions(
            SCENARIO,
            tmp_path_factory.mktemp("undisturbed"),
            hours=HOURS,
            seed=SEED,
            board=False,
            own_servers=True,
        ),
        print,
    )
