"""A part's life as JSON, for a record of the state topic and for an agent's journal."""

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from walras_contracts.demand import Drainability
from walras_contracts.work import LeaseOutcome
from walras_node_agent.part_life import Happened, Life, Timeline
from walras_node_agent.part_table import PartEvent, PartState

_TIMELINE: Final = tuple(field.name for field in fields(Timeline))
_DEFAULTS: Final = {
    field.name: field.default
    for field in fields(Life)
    if field.name not in {"gang", "drainability"}
}


@lru_cache(1 << 10)
def dump_life(life: Life) -> Mapping[str, Any]:
    """Return what differs from a part that was just accepted; most parts are alike."""
    changed: dict[str, Any] = {"gang": life.gang, "drainability": life.drainability.value}
    for name, default in _DEFAULTS.items():
        value = getattr(life, name)
        if value != default:
            changed[name] = value
    if life.drain is not None:
        changed["drain"] = _dump_timeline(life.drain)
    if life.kept is not None:
        kept = life.kept
        timeline = None if kept.timeline is None else _dump_timeline(kept.timeline)
        changed["kept"] = [kept.event.value, kept.session, timeline]
    return changed


def parse_life(changed: Mapping[str, Any]) -> Life:
    """Return the part that was dumped."""
    values = dict(changed)
    values["drainability"] = Drainability(values["drainability"])
    values["state"] = PartState(values.get("state", PartState.ACCEPTED))
    values["outcome"] = LeaseOutcome(values.get("outcome", LeaseOutcome.NONE))
    if "drain" in values:
        values["drain"] = _parse_timeline(values["drain"])
    if "kept" in values:
        event, session, timeline = values["kept"]
        kept = None if timeline is None else _parse_timeline(timeline)
        values["kept"] = Happened(PartEvent(event), session, kept)
    return Life(**values)


def _dump_timeline(timeline: Timeline) -> list[Any]:
    return [getattr(timeline, name) for name in _TIMELINE]


def _parse_timeline(values: list[Any]) -> Timeline:
    return Timeline(*values)
