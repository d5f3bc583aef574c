"""What all tests share: import path, hypothesis profiles, the random seed, legs, log levels."""

import logging
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

ROOT: Final = Path(__file__).resolve().parent
# Tests that cross packages import each other's modules as `tests.…`, however pytest was started.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

PROFILE_VARIABLE: Final = "WALRAS_HYPOTHESIS_PROFILE"
SEED_VARIABLE: Final = "WALRAS_SEED"
DEFAULT_SEED: Final = 42
ALL_SEEDS: Final = range(100)

BROKER_FIXTURES: Final = frozenset({"kafka_broker", "own_broker"})
"""A test that uses one of these talks to a real Apache Kafka, marked or not."""

# Neither deadlines nor the "too slow" check: both time a shared machine, not the code.
_UNTIMED: Final = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, **_UNTIMED)  # type: ignore[arg-type] # mixed values
settings.register_profile(
    "ci",
    max_examples=200,
    derandomize=True,
    print_blob=True,
    **_UNTIMED,  # type: ignore[arg-type] # mixed values
)
settings.register_profile("long", max_examples=2_000, print_blob=True, **_UNTIMED)  # type: ignore[arg-type] # mixed values


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile: the variable's, else `ci` where CI is true, else `dev`."""
    del config
    in_ci = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    settings.load_profile(os.environ.get(PROFILE_VARIABLE) or ("ci" if in_ci else "dev"))


def seeds(value: str) -> list[int]:
    """Return the seeds that a value of `WALRAS_SEED` asks for: a number, `any` or `all`."""
    if value == "all":
        return list(ALL_SEEDS)
    if value == "any":
        return [secrets.randbelow(1_000_000)]
    return [int(value or DEFAULT_SEED)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `global_random_seed` its values; the seed stands in the id of the test."""
    if "global_random_seed" in metafunc.fixturenames:
        values = seeds(os.environ.get(SEED_VARIABLE, ""))
        metafunc.parametrize("global_random_seed", values, ids=[f"seed{v}" for v in values])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note in the JUnit report which tests talk to a real broker, so that they can be counted."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if item.get_closest_marker("broker") or BROKER_FIXTURES.intersection(fixtures):
            item.user_properties.append(("walras_leg", "broker"))


@pytest.fixture(autouse=True, scope="module")
def log_level_stays() -> Iterator[None]:
    """Give the Kafka client's log its level back after each file of tests.

    A command that runs in a test's own process silences it, and the next file would find it so.
    """
    log = logging.getLogger("aiokafka")
    before = log.level
    yield
    log.setLevel(before)
