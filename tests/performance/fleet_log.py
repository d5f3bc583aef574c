"""What the cycles of a run left on the log: whether they decided what the run is to measure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from tests.performance.outside import BenchError
from walras_contracts.market import CycleFramed, CycleSummarised, MarketState
from walras_contracts.quantities import PPM
from walras_contracts.registry import decode_inner
from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_all, read_until
from walras_runtime.kafka.wire import parse_message
from walras_runtime.records import Record


@dataclass(slots=True)
class BidFold:
    """Bids by market and team, folded from frames, and how many of them each cycle changed."""

    markets: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: dict[int, set[str]] = field(default_factory=dict)
    """Per cycle the teams of which some bid changed."""
    present: dict[int, set[str]] = field(default_factory=dict)
    """Per cycle the teams that bid before or after it."""
    key_frames: set[int] = field(default_factory=set)
    """Cycles that are framed whole."""

    def take(self, frame: CycleFramed) -> None:
        """Take the next part of a frame; the first of a market is that of a key frame."""
        is_key = frame.kind == "key"
        known = self.markets.setdefault(frame.market, {})
        changed = self.changed.setdefault(frame.cycle, set())
        present = self.present.setdefault(frame.cycle, set())
        if is_key:
            self.key_frames.add(frame.cycle)
        for team in frame.removed_teams:
            known.pop(team, None)
        for team, bid in zip(frame.teams, frame.bids_micro_per_hour, strict=True):
            if known.get(team) != bid:
                changed.add(team)
            known[team] = bid
        if frame.part == frame.parts - 1:
            present.update(team for team, bid in known.items() if bid or team in changed)

    def changed_ppm_least(self, first_cycle: int) -> int:
        """Return the least share of the teams whose bids a cycle changed, from one cycle on."""
        shares = [
            len(teams) * PPM // len(self.present[cycle])
            for cycle, teams in self.changed.items()
            if cycle >= first_cycle and self.present[cycle]
        ]
        return min(shares, default=0)


async def fold_bids(bootstrap: str, topics: Mapping[str, Topic], first_cycle: int) -> BidFold:
    """Fold the bids of all cycles from one with key frames on."""
    topic, fold = topics["cycles.frames"], BidFold()
    tps = [TopicPartition(topic.full_name, p) for p in range(topic.partitions)]
    async with plain_consumer(bootstrap) as consumer:
        start = await consumer.beginning_offsets(tps)
        async for _, messages in read_until(consumer, start, await ends(consumer, tps)):
            for message in messages:
                item = parse_message(message, topic.name)
                # Keys are market/cycle/part: most of what was framed while the queue grew is
                # passed over without being decoded.
                if not isinstance(item, Record) or not item.value:
                    continue
                if int(item.key.split("/")[1]) >= first_cycle:
                    frame = decode_inner(item.type, item.value)
                    assert isinstance(frame, CycleFramed)
                    fold.take(frame)
    return fold


async def last_summaries(
    bootstrap: str, topics: Mapping[str, Topic], first_cycle: int
) -> list[CycleSummarised]:
    """Return the summaries of the last cycle.

    Raises
    ------
    BenchError
        Some market was not cleared in some cycle from ``first_cycle`` on.
    """
    topic = topics["cycles"]
    found: dict[str, CycleSummarised] = {}
    for message in await read_all(bootstrap, topic.full_name, range(topic.partitions)):
        item = parse_message(message, topic.name)
        if isinstance(item, Record) and item.type == CycleSummarised.TYPE and item.value:
            summary = decode_inner(item.type, item.value)
            assert isinstance(summary, CycleSummarised)
            if summary.cycle >= first_cycle and summary.state is not MarketState.CLEARED:
                raise BenchError(f"{summary.record_key()} is {summary.state}")
            found[summary.market] = summary
    return list(found.values())
