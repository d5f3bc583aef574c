"""From a replay to what its report says about it."""

from collections.abc import Iterable, Mapping

from walras.report.records import RunContext
from walras.trace import Replay
from walras_contracts.accounts import AccountsRequested, MarketDocument, PlatformDocument


def context_of(replay: Replay, run: Mapping[str, str | int] | None = None) -> RunContext:
    """Return the context of a replay.

    Parameters
    ----------
    replay
        What was written into the market.
    run
        Words and numbers about this run (wall-clock seconds, broker version): shown as given.
    """
    scenario, facts = replay.scenario, replay.facts
    return RunContext(
        scenario=scenario.name,
        title=scenario.title,
        seed=replay.seed,
        hours=replay.hours,
        start_ms=replay.start_ms,
        end_ms=replay.end_ms,
        interval_ms=replay.interval_ms,
        real=scenario.facts.real,
        invented=scenario.facts.invented,
        trace={
            "file": scenario.trace.file,
            "source": scenario.trace.source,
            "commit": scenario.trace.commit,
            "licence": scenario.trace.licence,
            "sha256": scenario.trace.sha256,
        },
        trace_facts={
            "jobs_arriving_in_window": facts.window_jobs,
            "jobs_running_at_start": facts.initial_jobs,
            "accelerators_running_at_start": facts.initial_accelerators,
            "jobs_replayed": facts.replayed_jobs,
            "mean_load_milli_accelerators": facts.accelerator_seconds
            * 1000
            // facts.window_seconds,
            "supply_accelerators": facts.supply_devices,
            "own_accelerators": facts.own_devices,
            "largest_job_accelerators": facts.largest_job_accelerators,
            "jobs_larger_than_every_accepted_type": facts.jobs_without_home,
        },
        devices_by_type=facts.devices_by_type,
        pool_of_team={team.team: pool.pool for pool in scenario.pools for team in pool.teams},
        policies=policies_of(replay.accounts),
        run=run or {},
    )


def policies_of(accounts: Iterable[AccountsRequested]) -> dict[str, str | int]:
    """Return the rounding of each market and the retention gap that accounts ask for.

    Markets that agree are told together, as ``rounding``.
    """
    found: dict[str, str | int] = {}
    roundings: dict[str, str] = {}
    for request in accounts:
        document = request.document
        if isinstance(document, PlatformDocument):
            found["retention_gap_ppm"] = document.retention_gap_ppm
        elif isinstance(document, MarketDocument):
            roundings[document.market] = document.rounding.value
    names = sorted(set(roundings.values()))
    if len(names) == 1:
        return {"rounding": names[0], **found}
    return {**{f"rounding of {m}": roundings[m] for m in sorted(roundings)}, **found}
