"""Facts of the drain: warned, saved, freed, in that order and in time."""

from walras.demo_nodes.evidence import Evidence
from walras.demo_nodes.finding import Finding
from walras_contracts.work import DrainState, DrainStatusChanged, LeaseOutcome, LeaseState

ORDER = (
    *(DrainState.WARNED, DrainState.CHECKPOINTING, DrainState.WAITING),
    *(DrainState.TERMINATING, DrainState.VERIFYING, DrainState.FREED),
)


def drain_fact(evidence: Evidence) -> Finding:
    """Check the timeline of the drain, as the agent told it."""
    found = Finding(
        "drain", "the job was warned, saved, ended by itself, and its devices were free"
    )
    mine = [d for d in evidence.drains if (d.team, d.job) == evidence.subject]
    sessions = sorted({each.session for each in mine})
    if not found.expect(len(sessions) == 1, f"it had {len(sessions)} drain sessions, not 1"):
        return found
    at_ms: dict[DrainState, int] = {}
    for each in mine:
        at_ms.setdefault(each.state, each.at_ms)
    _order(found, mine)
    needed = (DrainState.WARNED, DrainState.WAITING, DrainState.FREED)
    missing = [state.value for state in needed if state not in at_ms]
    if not found.expect(not missing, f"its drain never was {', '.join(missing)}"):
        return found
    warned, saved, freed = (at_ms[state] for state in needed)
    terms = evidence.scenario.drains
    allowed = terms.warning + terms.terminate + terms.verify
    found.figures = {
        "session": sessions[0],
        "warned_ms": warned,
        "saved_ms": saved,
        "freed_ms": freed,
        "warned_to_saved_ms": saved - warned,
        "saved_to_freed_ms": freed - saved,
        "warned_to_freed_ms": freed - warned,
        "allowed_ms": allowed,
        "states": [state.value for state in at_ms],
    }
    found.expect(saved - warned <= terms.warning, "it had not saved when its warning was over")
    found.expect(freed - warned <= allowed, f"it took {freed - warned} ms; {allowed} are allowed")
    outcomes = sorted({each.outcome for each in mine} - {""})
    found.expect(not outcomes, f"the drain ended as {', '.join(outcomes)}")
    _lease_end(found, evidence, mine[0].lease, freed)
    return found


def _order(found: Finding, mine: list[DrainStatusChanged]) -> None:
    places = [ORDER.index(each.state) for each in mine if each.state in ORDER]
    strange = [each.state.value for each in mine if each.state not in ORDER]
    found.expect(not strange, f"the drain was {', '.join(strange)}")
    found.expect(places == sorted(places), "the states of the drain are not in order")
    times = [each.at_ms for each in mine]
    found.expect(times == sorted(times), "the times of the drain are not in order")


def _lease_end(found: Finding, evidence: Evidence, lease: str, freed_ms: int) -> None:
    end = evidence.status(lease, LeaseState.FREED)
    if found.expect(end is not None, f"lease {lease} was never freed"):
        assert end is not None
        found.expect(
            end.outcome is LeaseOutcome.VACATED and end.exit_code == 0,
            f"the lease ended as {end.outcome.value}, with exit code {end.exit_code}",
        )
        found.expect(end.at_ms == freed_ms, "lease and drain say that it was freed at two times")
