"""How the stage is wired: inputs with their lags, outputs, the auction that it calls."""

from walras_clearing import Book, verify_arrays
from walras_clearing_service.books import Solver
from walras_clearing_service.core import ClearingStage, Options
from walras_clearing_service.settings import Settings
from walras_runtime.stage import Input, StageSpec

SETTLEMENT_LAG_CYCLES = 2
"""Balances of a settlement are used two cycle intervals after billing published them; with the
price grace that billing itself waits, that is the settlement lag of step protocol §3."""

LIBRARY = Solver(open_book=Book, verify=verify_arrays)


def build(settings: Settings) -> StageSpec:
    """Return the spec of the service with the auction of the clearing library."""
    return spec(
        settings.barriers_per_cycle(),
        live=settings.mode == "live",
        solver=LIBRARY,
        interval_ms=settings.barrier_interval_ms(),
    )


def spec(cycle_every: int, *, live: bool, solver: Solver, interval_ms: int = 60_000) -> StageSpec:
    """Return the spec for barriers per cycle and their distance, and an auction."""
    lag = SETTLEMENT_LAG_CYCLES * cycle_every
    options = Options(
        cycle_every=cycle_every, settlement_lag_steps=lag, live=live, interval_ms=interval_ms
    )
    return StageSpec(
        service="clearing",
        inputs=(
            Input("queue", table=True),
            Input("supply", table=True),
            Input("accounts", table=True),
            Input("job.status", lag=1, table=True),
            Input("placement.figures", lag=1),
            Input("balances", lag=lag, table=True),
            Input("budgets", lag=lag, table=True),
        ),
        outputs=("prices", "quotas", "cycles", "cycles.frames"),
        build=lambda _partition: ClearingStage(options, solver),
    )
